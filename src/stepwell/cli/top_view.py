"""The picture of `top`: lines on top, then tables, each cut to the rows that there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from stepwell.cli.output import Cell, Column, Span
from stepwell.cli.overview_commands import breaker_line, pace_text
from stepwell.cli.text import age, shorten, span
from stepwell.cli.top_figures import Snapshot
from stepwell.look import palette
from stepwell.look.palette import Look
from stepwell.model.states import TROUBLE, State

_BARS: Final = "▁▂▃▄▅▆▇█"
# The minutes whose waits and run times are shown, like those of the pace.
_RECENT: Final = 5
_FEWEST_ROWS: Final = 1


@dataclass(frozen=True, slots=True)
class Section:
    """A table under a heading; `empty` is shown instead of a table without rows."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    empty: str
    main: int  # the column that says how many rows are hidden


def head(now: Snapshot, database: str, problem: str | None = None) -> list[list[Span]]:
    """The lines above the tables. With a `problem`, the figures are old."""
    totals = now.totals
    unfinished = [
        (palette.PENDING, totals.states[State.PENDING]),
        (palette.THROTTLED, totals.throttled),
        (palette.DISPATCHED, totals.states[State.DISPATCHED]),
        (palette.RUNNING, totals.states[State.RUNNING]),
        (palette.CHILD_RUNNING, totals.child_running),
    ]
    concluded = [(palette.OF_STATE[state], totals.states[state]) for state in (State.COMPLETED, State.SKIPPED)]
    ended = [state for state in State if state in TROUBLE]
    lines: list[list[Span]] = [
        [("Stepwell", "bold"), (f"  {now.at:%Y-%m-%d %H:%M:%S} UTC  {shorten(database, 40)}", "bright_black")],
        ["Dispatching ", *breaker_line(now.breaker, now.at, as_age=True)],
        _numbers(unfinished),
        _numbers(concluded),
        _numbers([(palette.OF_STATE[state], totals.states[state]) for state in ended]),
        [f"Pace  {pace_text(now.estimate, None, now.at)}"],
        [f"Wait  {_waits(now)}"],
        ["Ended per minute  ", (_bars([minute.throughput for minute in now.minutes]), palette.COMPLETED.terminal)],
    ]
    if problem is not None:
        lines.insert(1, [(f"as of {now.at:%H:%M:%S}, retrying: {problem}", "bold yellow")])
    return lines


def one_line(now: Snapshot) -> list[Span]:
    """The same as one line, for a file or a pipe."""
    shown = {state: now.totals.states[state] for state in State}
    parts = [f"{state} {number:,}" for state, number in shown.items() if number or not State(state).is_terminal]
    waited = f", oldest ready {_since(now.oldest_ready, now.at)}" if now.oldest_ready else ""
    paused = "" if now.breaker.dispatching else ", dispatching PAUSED"
    pace = f", {now.estimate.per_minute:,.0f} a minute"
    return [f"{now.at:%Y-%m-%dT%H:%M:%SZ} {', '.join(parts)}{pace}{waited}{paused}"]


def sections(now: Snapshot) -> list[Section]:
    return [_running(now), _classes(now), _hosts(now), _causes(now)]


def fitted(found: Sequence[Section], lines: int) -> list[Section]:
    """The same with as many rows as fit: a section that needs less than its share leaves the rest to the others."""
    left, rows = len(found), max(lines - _OVERHEAD * len(found), 0)
    shares: dict[str, int] = {}
    for section in sorted(found, key=lambda section: len(section.rows)):
        shares[section.title] = min(len(section.rows), max(rows // left, _FEWEST_ROWS))
        rows, left = rows - shares[section.title], left - 1
    return [_cut(section, shares[section.title]) for section in found]


def _cut(section: Section, rows: int) -> Section:
    hidden = len(section.rows) - rows
    if not hidden:
        return section
    columns = list(section.columns)
    columns[section.main] = replace(columns[section.main], name=f"{columns[section.main].name} ({hidden:,} more)")
    return replace(section, columns=columns, rows=section.rows[:rows])


_OVERHEAD: Final = 2  # lines of a section beside its rows: a blank one, and the names of the columns


def _numbers(looks: Sequence[tuple[Look, int]]) -> list[Span]:
    spans: list[Span] = []
    for look, number in looks:
        style = look.terminal if number else "bright_black"
        spans += [(f"{look.sign} {look.word} {number:,}", style), "   "]
    return spans[:-1]


def _waits(now: Snapshot) -> str:
    """`p95 14 s, run p95 250 ms in 5 min; oldest ready step 10 s`."""

    def worst(values: Sequence[float | None]) -> str:
        known = [value for value in values if value is not None]
        return span(max(known)) if known else "none"

    recent = now.minutes[-_RECENT:]
    waits, runs = worst([minute.wait_p95 for minute in recent]), worst([minute.run_p95 for minute in recent])
    oldest = f"; oldest ready step {_since(now.oldest_ready, now.at)}" if now.oldest_ready else ""
    return f"p95 {waits}, run p95 {runs} in {_RECENT} min{oldest}"


def _bars(values: Sequence[int]) -> str:
    """A bar for each number, the highest one full.

    >>> _bars([0, 1, 4, 8])
    ' ▁▄█'
    """
    highest = max(values, default=0)
    return "".join(" " if value == 0 else _BARS[max(8 * value // highest, 1) - 1] for value in values)


def _running(now: Snapshot) -> Section:
    columns = [
        Column("ID", right=True),
        Column("RUNNING STEP"),
        Column("FOR", right=True),
        Column("ATTEMPT", right=True),
        Column("HOST"),
    ]
    rows: list[list[Cell]] = [
        [
            str(row.id),
            [(f"{palette.RUNNING.sign} ", palette.RUNNING.terminal), shorten(row.name, 34)],
            _since(row.started_at, now.at),
            str(row.attempts),
            shorten(row.hostname or "", 16),
        ]
        for row in now.running
    ]
    return Section("Running now, the longest first", columns, rows, "no step runs its own code", main=1)


def _classes(now: Snapshot) -> Section:
    def number(value: int, look: Look) -> Cell:
        return (f"{value:,}", look.terminal if value else "bright_black")

    columns = [
        Column("ACTIVE CLASS"),
        Column("RUNNING", right=True),
        Column("CHILD RUNNING", right=True),
        Column("THROTTLED", right=True),
        Column("PENDING", right=True),
    ]
    rows = [
        [
            shorten(row.action, 34),
            number(row.running, palette.RUNNING),
            number(row.child_running, palette.CHILD_RUNNING),
            number(row.throttled, palette.THROTTLED),
            number(row.pending, palette.PENDING),
        ]
        for row in now.classes
    ]
    return Section("Active classes", columns, rows, "no class has running or dispatched steps", main=0)


def _hosts(now: Snapshot) -> Section:
    columns = [
        Column("HOST"),
        Column("WORKERS", right=True),
        Column("SLOTS", right=True),
        Column("RUNNING", right=True),
        Column("LAST SEEN", right=True),
    ]
    rows: list[list[Cell]] = [
        [
            shorten(row.host, 34),
            str(row.workers),
            str(row.slots),
            f"{row.running:,}",
            age(row.last_seen, now.at) if row.alive else (f"dead: {age(row.last_seen, now.at)}", "bold red"),
        ]
        for row in now.hosts
    ]
    empty = "no worker: steps stay Pending until one starts (`stepwell up`)"
    return Section("Hosts", columns, rows, empty, main=0)


def _causes(now: Snapshot) -> Section:
    columns = [
        Column("STEPS", right=True),
        Column("BEHIND", right=True),
        Column("CAUSE OF FAILURES"),
        Column("LAST", right=True),
        Column("NEWEST", right=True),
    ]
    rows: list[list[Cell]] = [
        [
            f"{row.steps:,}",
            f"{row.behind:,}" if row.behind else "",
            [
                (f"{palette.FAILED.sign} ", palette.FAILED.terminal),
                shorten(f"{row.action}: {row.error or row.reason}", 42),
            ],
            age(row.last_at, now.at),
            str(row.newest_step),
        ]
        for row in now.causes
    ]
    return Section("Failures by cause, the latest first", columns, rows, "no step has failed", main=2)


def _since(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else span(max((now - moment).total_seconds(), 0.0))
