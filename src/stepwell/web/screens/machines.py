"""Who runs what: workers, groups, ticks with the times of their phases, and shares."""

from __future__ import annotations

from typing import Any, Final

from stepwell.store.engine.reading import TickRow
from stepwell.web.draw.charts import meter
from stepwell.web.screens.asked import ONLY_DATA, Asked, View
from stepwell.web.screens.commands import command

TICKS: Final = 50
RUNS: Final = 2_000
SLOW_MS: Final = 1.0  # a phase that changed nothing is shown if it took this long


def workers(asked: Asked) -> View:
    rows = asked.app.workers()
    return View(
        template="workers.html",
        title="Workers",
        cli=command("workers"),
        screen="Workers",
        data={
            "rows": [
                (row, meter(row.running, row.slots, label=f"{row.running} of {row.slots} slots in use")) for row in rows
            ],
            "unserved": asked.app.reader.unserved_lanes(),
            "jobs": asked.app.reader.jobs(),
            "limits": asked.app.limits.all(),
            "queues": asked.app.figures.queues(),
        },
    )


def groups(asked: Asked) -> View:
    counted = {row.group: row for row in asked.app.figures.groups()}
    return View(
        template="groups.html",
        title="Groups",
        cli=command("groups"),
        screen="Groups",
        data={"rows": [(row, counted.get(row.group)) for row in asked.app.groups()]},
    )


def group(asked: Asked) -> View:
    name = asked.params["group"]
    counted = {row.group: row for row in asked.app.figures.groups()}
    rows = {row.group: row for row in asked.app.groups()}
    ticks = asked.app.ticks(name, TICKS)  # refuses an unknown group
    return View(
        template="group.html",
        title=f"Group {name}",
        cli=command("ticks", group=name),
        screen="Groups",
        data={"row": rows.get(name), "counts": counted.get(name), "name": name, "ticks": _with_phases(ticks)},
    )


def ticks(asked: Asked) -> View:
    return View(
        template="ticks.html",
        holds=ONLY_DATA,
        title="Ticks",
        cli=command("ticks"),
        screen="Ticks",
        data={"ticks": _with_phases(asked.app.ticks(None, TICKS))},
    )


def shares(asked: Asked) -> View:
    found = asked.app.main_processes.shares(RUNS)
    classes = {row.action: row for row in asked.app.figures.classes(active_only=False)}
    jobs = asked.app.reader.jobs()
    running = sum(row.running for row in classes.values()) or 1
    active = [job for job in jobs if job.name in classes]
    weights = sum(job.weight for job in active) or 1
    return View(
        template="shares.html",
        title="Shares",
        cli=command("shares"),
        screen="Shares",
        data={
            "shares": [
                (share, meter(share.delivered, max(share.promised or 0, share.delivered, 0.01), label="delivered"))
                for share in found
            ],
            "jobs": [
                (job, classes[job.name], job.weight / weights, classes[job.name].running / running) for job in active
            ],
        },
    )


def _with_phases(ticks: list[TickRow]) -> list[tuple[TickRow, list[dict[str, Any]], float]]:
    """Each tick with its phases and the time of the slowest."""
    found = []
    for tick in ticks:
        phases = [phase for phase in tick.progress or () if phase.get("rows") or phase.get("ms", 0) >= SLOW_MS]
        found.append((tick, phases, max((phase.get("ms", 0.0) for phase in phases), default=0.0)))
    return found
