"""The history of a step as a table, the same for `stepwell show` and for the demo."""

from __future__ import annotations

from datetime import UTC, date

from stepwell.cli.output import Cell, Column, Output, of_state
from stepwell.cli.text import exact, shorten
from stepwell.model.step import Transition


def write_history(output: Output, history: list[Transition]) -> None:
    """Every transition, one per line.

    A terminal is narrow: it gets the date once, and no column for the state before, which is in the line above.
    """
    if output.rich is None:
        _write_wide(output, history)
        return
    columns = [Column("TIME (UTC)"), Column("TO"), Column("TRY", right=True), Column("WHY", folds=True)]
    rows: list[list[Cell]] = []
    day: date | None = None
    for change in history:
        if (today := change.at.astimezone(UTC).date()) != day:
            rows.append([(str(today), "bright_black"), "", "", ""])
            day = today
        attempt, why, actor = _rest(change)
        rows.append([exact(change.at)[11:26], of_state(change.to_state), attempt, why, (shorten(actor, 26), "dim")])
    output.table([*columns, Column("BY")], rows)


def _write_wide(output: Output, history: list[Transition]) -> None:
    names = ("TIME (UTC)", "FROM", "TO", "ATTEMPT", "WHY", "BY")
    columns = [Column(name, right=name == "ATTEMPT", folds=name in ("WHY", "BY")) for name in names]
    rows = [
        [exact(change.at)[:26], str(change.from_state or "(created)"), str(change.to_state), *_rest(change)]
        for change in history
    ]
    output.table(columns, rows)


def _rest(change: Transition) -> tuple[str, str, str]:
    why = shorten(change.error or change.reason or "", 200)
    return str(change.attempt), why, shorten(change.actor or "", 60)
