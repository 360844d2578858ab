"""What `top` shows, as of one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import structs

from stepwell.look.shown import shown_row

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.look.figures import Cause, ClassFigures, Estimate, HostFigures, Minute, Totals
    from stepwell.look.lists import StepRow
    from stepwell.operate.breaker import BreakerState

CHARTED: Final = timedelta(minutes=30)
# A picture has room for a few causes, and for the steps that have run longest among as many as these.
CAUSES: Final = 20
MOST_RUNNING: Final = 500


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The figures of one moment. `running` are the steps whose own code runs, the oldest run first."""

    at: datetime
    breaker: BreakerState
    totals: Totals
    estimate: Estimate
    oldest_ready: datetime | None
    minutes: list[Minute]
    classes: list[ClassFigures]
    hosts: list[HostFigures]
    causes: list[Cause]
    running: list[StepRow]
    more_running: bool


def take_snapshot(app: Stepwell) -> Snapshot:
    figures = app.figures
    page = app.lists.steps(status="running", limit=MOST_RUNNING)
    running = [shown_row(row, app.redaction) for row in page.rows]
    text = app.redaction.text
    return Snapshot(
        at=app.database.now(),
        breaker=app.breaker.state(),
        totals=figures.totals(),
        estimate=figures.estimate(),
        oldest_ready=figures.oldest_ready(),
        minutes=figures.minutes(CHARTED),
        classes=sorted(figures.classes(), key=lambda row: (-row.running, -row.dispatched, row.action)),
        hosts=figures.hosts(),
        causes=[
            structs.replace(cause, error=text(cause.error), reason=text(cause.reason))
            for cause in figures.causes(limit=CAUSES)
        ],
        running=sorted(running, key=lambda row: row.started_at or row.updated_at),
        more_running=page.next is not None,
    )
