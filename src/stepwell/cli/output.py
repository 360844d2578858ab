"""Where a command writes: tables, fields and trees, with colour and folding on a terminal, plain lines elsewhere.

Plain output keeps every record on one line, so that `grep` and `cut` work; it does not even load rich.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import click

from stepwell.cli.text import clean
from stepwell.look.palette import STYLES
from stepwell.model.states import State

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

Span: TypeAlias = str | tuple[str, str]  # text, or text with its style
Cell: TypeAlias = Span | Sequence[Span]


def of_state(state: State | str) -> Span:
    """A state in its colour."""
    return (str(state), STYLES[State(state)])


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; on a narrow terminal only those that fold get narrower."""

    name: str
    right: bool = False
    folds: bool = False


class Output:
    """Writes to stdout."""

    def __init__(self) -> None:
        self.rich: Console | None = None
        if sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
            from rich.console import Console

            self.rich = Console(highlight=False, markup=False, emoji=False)

    def narrower_than(self, columns: int) -> bool:
        """Whether it is a terminal of fewer columns."""
        return self.rich is not None and self.rich.width < columns

    def line(self, *spans: Span, cut: bool = False, whole: bool = False) -> None:
        """One line. If it is too long for the terminal, it is folded, or cut, or left whole (to be copied)."""
        if self.rich is None:
            click.echo(_plain(spans).rstrip())
        else:
            overflow: Literal["ellipsis", "fold"] = "ellipsis" if cut else "fold"
            self.rich.print(rich_text(spans), overflow=overflow, no_wrap=cut or None, soft_wrap=whole)

    def heading(self, text: str) -> None:
        self.line()
        self.line((text, "bold"))

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        if self.rich is None:
            _plain_table(columns, rows)
            return
        self.rich.print(rich_table(columns, rows))

    def fields(self, pairs: Iterable[tuple[str, Cell]]) -> None:
        """Names and values, one pair per line, without empty values."""
        shown = [(name, cell) for name, cell in pairs if _plain(cell)]
        width = max((len(name) for name, _ in shown), default=0)
        if self.rich is None:
            for name, cell in shown:
                click.echo(f"{name.ljust(width)}  {_plain(cell)}")
            return
        from rich.table import Table

        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="bright_black", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, cell in shown:
            grid.add_row(name, rich_text(cell))
        self.rich.print(grid)

    def block(self, title: str, text: str) -> None:
        """Several lines under a heading."""
        self.heading(title)
        for row in clean(text, lines=True).rstrip().expandtabs(4).split("\n"):
            self.line(f"  {row}")

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """Show a spinner on a terminal."""
        if self.rich is None:
            yield
            return
        with self.rich.status(doing):
            yield


def _spans(cell: Cell) -> Iterator[tuple[str, str]]:
    if isinstance(cell, str):
        yield clean(cell), ""
    elif isinstance(cell, tuple) and len(cell) == 2 and all(isinstance(part, str) for part in cell):
        yield clean(cell[0]), str(cell[1])
    else:
        for span in cell:
            yield from _spans(span)


def _plain(cell: Cell) -> str:
    return "".join(text for text, _ in _spans(cell))


def rich_text(cell: Cell) -> Text:
    """A cell for a terminal."""
    from rich.text import Text

    return Text.assemble(*_spans(cell))


def rich_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, rule: bool = True) -> Table:
    """A table for a terminal, with or without a rule under the names of its columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    box = SIMPLE_HEAD if rule else None
    padding = (0, 1 if rule else 2, 0, 0)  # a box adds one
    table = Table(box=box, show_edge=False, pad_edge=False, padding=padding, header_style="bold")
    for column in columns:
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=not column.folds,
            overflow="fold",
            min_width=6 if column.folds else None,
        )
    for row in rows:
        table.add_row(*(rich_text(cell) for cell in row))
    return table


def _plain_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    lines = [[column.name for column in columns], *([_plain(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        padded = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())
