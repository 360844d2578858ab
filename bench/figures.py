"""What a benchmark prints: one figure per line, with its bar and whether it holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. `bar` is what it must hold, like `<= 1.3`; None when it only informs."""

    name: str
    database: str
    value: float
    unit: str
    bar: str | None = None
    detail: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the bar is held.

        >>> Figure("tick", "sqlite", 1.04, "ratio", "<= 1.3").holds
        True
        >>> Figure("create", "sqlite", 0.2, "ratio", ">= 0.3").holds
        False
        """
        if self.bar is None:
            return None
        relation, limit = self.bar.split()
        return self.value <= float(limit) if relation == "<=" else self.value >= float(limit)

    @property
    def shown(self) -> str:
        return f"{self.value:,.0f}" if self.value >= 1000 or self.value == int(self.value) else f"{self.value:,.2f}"

    def as_json(self) -> str:
        return json.dumps({**asdict(self), "value": round(self.value, 6), "holds": self.holds}, ensure_ascii=False)


def as_table(figures: Sequence[Figure]) -> str:
    """The figures for people, in aligned columns."""
    heads = ("figure", "database", "value", "unit", "bar", "holds")
    rows = [
        (f.name, f.database, f.shown, f.unit, f.bar or "", {True: "yes", False: "NO", None: ""}[f.holds])
        for f in figures
    ]
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    lines = [_line(heads, widths), _line(["-" * width for width in widths], widths)]
    for figure, row in zip(figures, rows, strict=True):
        lines.append(_line(row, widths))
        if figure.detail:
            lines.append(f"    {figure.detail}")
    return "\n".join(lines)


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    aligned = [
        cell.rjust(width) if column == 2 else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()
