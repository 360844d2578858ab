"""Overviews: `stats`, `groups`, `ticks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from stepwell.cli.output import Cell, Column, Output, Span, of_state
from stepwell.cli.parameters import known_group
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import NAME_WIDTH, age, exact, shorten, span, to_json
from stepwell.model.actors import person_of
from stepwell.model.states import UNFINISHED

if TYPE_CHECKING:
    from datetime import datetime

    from stepwell.look.figures import Estimate
    from stepwell.operate.breaker import BreakerState
    from stepwell.store.engine.reading import TickRow

_UNFINISHED = sorted(UNFINISHED, key=["Pending", "Dispatched", "Running"].index)
_STATUSES = {
    "new": "inserted with plain SQL, not adopted yet",
    "unchecked": "to be checked by the next tick",
    "delayed": "not due yet",
    "open": "ready to be dispatched",
    "exhausted": "out of retries",
    "dispatched": "waiting for a worker",
    "running": "running their own code",
    "held": "tasks of main processes, waiting for the reschedule beat",
}


def breaker_line(breaker: BreakerState, now: datetime | None = None, *, as_age: bool = False) -> list[Span]:
    """Whether steps are dispatched; if not, who paused it, since when (as an age: for how long) and why.

    And when the pause is planned to end, or that it has outlasted that.
    """
    if breaker.dispatching:
        return [("on", "green")]
    by = f" by {person_of(breaker.changed_by)}" if breaker.changed_by else ""
    since = ""
    if breaker.changed_at is not None:
        since = (
            f" for {span(max((now - breaker.changed_at).total_seconds(), 0.0))}"
            if as_age and now is not None
            else f" since {exact(breaker.changed_at)}"
        )
    why = f": {breaker.reason}" if breaker.reason else ""
    line: list[Span] = [("PAUSED", "bold red"), f"{by}{since}{why}"]
    if breaker.planned_end is None:
        return line
    late = None if now is None else breaker.late(now)
    if late is not None:
        return [*line, (f" ({span(late.total_seconds())} past its planned end)", "bold red")]
    return [*line, f" (planned end {age(breaker.planned_end, now) if as_age and now else exact(breaker.planned_end)})"]


def pace_text(estimate: Estimate, oldest: datetime | None, now: datetime) -> str:
    """`212 a minute, empties in about 6 min; the oldest ready step has waited for 41 s`."""
    parts = [f"{estimate.per_minute:,.0f} a minute"]
    if estimate.waiting and estimate.seconds is not None:
        parts.append(f"empties in about {span(estimate.seconds)}")
    if oldest is not None:
        parts.append(f"the oldest ready step has waited for {span(max((now - oldest).total_seconds(), 0.0))}")
    return ", ".join(parts)


@click.command()
@database_option
@json_option
@click.pass_obj
def stats(target: Target, as_json: bool) -> None:
    """Show the breaker, counts by state, the agenda and the live workers."""
    with target.open() as app:
        found = app.stats()
        estimate, oldest = app.figures.estimate(), app.figures.oldest_ready()
        breaker = app.breaker.state()
        now = app.database.now()
    if as_json:
        click.echo(to_json({**asdict(found), "estimate": estimate, "oldest_ready": oldest, "breaker": breaker}))
        return
    output = Output()
    output.fields([("dispatching", breaker_line(breaker, now))])
    output.table(
        [Column("STATE"), Column("STEPS", right=True)],
        ([of_state(state), f"{number:,}"] for state, number in found.states.items()),
    )
    output.fields(
        [
            ("child pending", f"{found.child_pending:,} of Pending"),
            ("child running", f"{found.child_running:,} of Running"),
            ("throttled", f"{found.throttled:,} of Pending"),
            ("pace", pace_text(estimate, oldest, now)),
        ]
    )
    if found.agenda:
        output.heading("Agenda (without steps that wait for other steps)")
        rows = [[status, f"{number:,}", _STATUSES.get(status, "")] for status, number in sorted(found.agenda.items())]
        output.table([Column("STATUS"), Column("STEPS", right=True), Column("MEANING", folds=True)], rows)
    output.heading("Live workers")
    if not found.workers:
        output.line(("none: steps stay Pending until one starts", "yellow"))
        return
    output.table(
        [
            Column("HOST"),
            Column("PID", right=True),
            Column("SLOTS", right=True),
            Column("STARTED"),
            Column("LAST SEEN"),
        ],
        (
            [
                shorten(w.hostname, 30),
                str(w.pid),
                str(w.slots),
                age(w.started_at, now),
                age(w.heartbeat_at, now),
            ]
            for w in found.workers
        ),
    )


@click.command()
@database_option
@json_option
@click.pass_obj
def groups(target: Target, as_json: bool) -> None:
    """List the groups: unfinished steps, last tick, last dispatch and lock."""
    with target.open() as app:
        rows = app.groups()
        counted = {
            row.group: {"Pending": row.pending, "Dispatched": row.dispatched, "Running": row.running}
            for row in app.figures.groups()
        }
        now = app.database.now()
    unfinished = {row.group: counted[row.group] for row in rows}
    if as_json:
        click.echo(to_json([{**asdict(row), "unfinished": unfinished[row.group]} for row in rows]))
        return
    columns = [
        Column("GROUP"),
        *(Column(state.upper(), right=True) for state in _UNFINISHED),
        Column("LAST TICK", right=True),
        Column("LAST DISPATCH", right=True),
        Column("LOCK", folds=True),
    ]
    Output().table(
        columns,
        (
            [
                shorten(row.group, NAME_WIDTH),
                *(_number(number) for number in unfinished[row.group].values()),
                age(row.last_tick_completed, now),
                age(row.last_selected_at, now),
                f"{row.lock_owner}, expires {age(row.lock_deadline, now)}" if row.lock_owner else "",
            ]
            for row in rows
        ),
    )


def _number(number: int) -> Cell:
    return f"{number:,}" if number else ("0", "dim")


@click.command()
@click.option("--group", help="Only ticks of this group.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Maximum number of ticks.")
@database_option
@json_option
@click.pass_obj
def ticks(target: Target, group: str | None, limit: int, as_json: bool) -> None:
    """Show the tick log, newest first: ticks that changed rows or failed."""
    with target.open() as app:
        found = app.ticks(None if group is None else known_group(app, group), limit)
        now = app.database.now()
    if as_json:
        click.echo(to_json(found))
        return
    output = Output()
    if not found:
        output.line(
            "No ticks recorded. Only ticks that changed rows or failed are kept; `stepwell dispatcher` runs them."
        )
        return
    columns = [
        Column("TICK", right=True),
        Column("GROUP"),
        Column("STARTED", right=True),
        Column("MS", right=True),
        Column("DISPATCHED", right=True),
        Column("CHANGES", folds=True),
    ]
    output.table(columns, (_tick_row(row, age(row.started_at, now)) for row in found))


def _tick_row(row: TickRow, started: str) -> list[Cell]:
    took = "" if row.duration_ms is None else f"{row.duration_ms:.1f}"
    if row.error:
        what: Cell = (shorten(row.error, 200), "bold red")
    elif row.ended_at is None:
        what = ("running or interrupted", "yellow")
    else:
        what = phases_text(row.progress)
    return [str(row.id), shorten(row.group, NAME_WIDTH) or "none", started, took, _number(row.steps_dispatched), what]


def phases_text(phases: list[dict[str, Any]]) -> str:
    """The phases of a tick that changed rows, with their counts."""
    return ", ".join(_phase_text(phase) for phase in phases if phase["rows"]) or "only opened steps"


def _phase_text(phase: dict[str, Any]) -> str:
    text = f"{phase['name']} {phase['rows']:,}"
    if "why" not in phase:
        return text
    return f"{text} (step {', '.join(map(str, phase['steps']))}: {shorten(phase['why'], 200)})"
