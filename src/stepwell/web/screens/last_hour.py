"""The charts of the last hour, with the stretches in which dispatching was off."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from markupsafe import Markup

from stepwell.app import Stepwell
from stepwell.look.words import span
from stepwell.web.draw.charts import sparkline

HOUR: Final = timedelta(hours=1)
# The newest rows of the audit trail that are searched for pauses: a chart lacks a pause that is older than these.
OPERATIONS: Final = 200


def last_hour(app: Stepwell, now: datetime) -> dict[str, Any]:
    """What the part of the overview shows."""
    minutes = app.figures.minutes(HOUR)
    done: list[float | None] = [float(minute.throughput) for minute in minutes]
    failed: list[float | None] = [float(minute.ended["Failed"] + minute.ended["Stopped"]) for minute in minutes]
    off = pauses(app, now - HOUR, now)
    gaps = [((start - now + HOUR) / HOUR, (end - now + HOUR) / HOUR) for start, end in off]
    charts: list[tuple[str, str, Markup]] = []
    if minutes:
        waits = [minute.wait_p95 for minute in minutes]
        runs = [minute.run_p95 for minute in minutes]
        charts = [
            ("throughput", f"{max(filter(None, done), default=0):,.0f}/min at most",
             sparkline(done, label="Steps that ended, per minute of the last hour", class_="s-completed", gaps=gaps)),
            ("failures", f"{sum(filter(None, failed)):,.0f} in the last hour",
             sparkline(failed, label="Failures per minute of the last hour", class_="s-failed", gaps=gaps)),
            ("wait p95", _highest(waits),
             sparkline(waits, label="Wait before a run, 95th percentile per minute", class_="s-pending", gaps=gaps)),
            ("run p95", _highest(runs),
             sparkline(runs, label="Duration of runs, 95th percentile per minute", class_="s-running", gaps=gaps)),
        ]  # fmt: skip
    return {"charts": charts, "estimate": app.figures.estimate(), "was_off": bool(off)}


def pauses(app: Stepwell, first: datetime, now: datetime) -> list[tuple[datetime, datetime]]:
    """From when to when dispatching was off since `first`, the newest stretch first: from the audit trail."""
    end = None if app.breaker.state().dispatching else now
    found: list[tuple[datetime, datetime]] = []
    for row in app.operations.newest(limit=OPERATIONS):
        at = row.started_at or row.created_at
        if at < first:
            break
        if row.kind == "pause" and end is not None:
            found.append((at, end))
            end = None
        elif row.kind == "resume":
            end = at
    return found if end is None else [*found, (first, end)]


def _highest(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"up to {span(max(known))}" if known else "no runs"
