"""Stepwell's own figures beside the limit and the peers: what is compared with what, and what must hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from bench.figures import Figure
from bench.load import CHAINS, MILLISECONDS, NO_OP, PICK_UP, Measured, figure_names

TIMES: Final = "times"
RATIO: Final = "ratio"

OF_THE_LIMIT: Final = {"postgres": ">= 0.5", "sqlite": ">= 0.3"}
AHEAD: Final = ">= 1"
# They keep rows in PostgreSQL as we do: where the work itself is nothing, we want to be another order of magnitude.
FAR_AHEAD_OF: Final = ("dbos", "absurd", "procrastinate")
FAR_AHEAD_IN: Final = (NO_OP, CHAINS)
FAR_AHEAD: Final = ">= 10"
PICK_UP_BARS: Final = {f"{PICK_UP} p50": "<= 2", f"{PICK_UP} p99": "<= 10"}


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. `bar` is what `value` must hold; one that could not be measured holds nothing."""

    name: str
    database: str
    value: float | None
    unit: str
    limit: float | None = None
    peers: Mapping[str, float] = field(default_factory=dict)
    bar: str | None = None
    detail: str = ""

    @property
    def ratio(self) -> float | None:
        """The value as a part of the limit; of times, a multiple of the limit."""
        return None if self.value is None or not self.limit else self.value / self.limit

    @property
    def holds(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value is not None and Figure(self.name, self.database, self.value, self.unit, self.bar).holds

    @property
    def best_peer(self) -> tuple[str, float] | None:
        """Who comes closest, on whichever database.

        >>> Line("chains", "sqlite", 9.0, "steps/s", peers={"huey on redis": 4.0, "dbos on postgres": 2.0}).best_peer
        ('huey on redis', 4.0)
        """
        best = min if self.unit == MILLISECONDS else max
        return best(self.peers.items(), key=lambda peer: peer[1]) if self.peers else None

    def ahead_of(self, peer: float) -> float | None:
        """How many times as fast as a peer, whether it is a rate or a time.

        >>> Line("idle pick-up p50", "sqlite", 2.0, "ms").ahead_of(500.0)
        250.0
        """
        if self.value is None:
            return None
        return peer / self.value if self.unit == MILLISECONDS else self.value / peer

    def as_json(self) -> str:
        numbers = {"value": _rounded(self.value), "limit": _rounded(self.limit), "ratio": _rounded(self.ratio)}
        peers = {name: _rounded(value) for name, value in self.peers.items()}
        return json.dumps({**asdict(self), **numbers, "peers": peers, "holds": self.holds}, ensure_ascii=False)


def side_by_side(
    database: str, work: str, own: Sequence[Measured], limit: Sequence[Measured], peers: Sequence[Measured]
) -> Iterator[Line]:
    """Every line of one kind of work on one database."""
    limits = {figure.name: figure.value for figure in limit}
    for name in figure_names(work):
        crews = [figure for figure in own if figure.name == name]
        theirs = {
            f"{figure.system} on {figure.database}": figure.value
            for figure in peers
            if figure.name == name and figure.value is not None
        }
        yield from _lines_of(work, database, crews, limits.get(name), theirs)


def _lines_of(
    work: str, database: str, crews: Sequence[Measured], limit: float | None, peers: Mapping[str, float]
) -> Iterator[Line]:
    if len(crews) > 1:
        for crew in crews:
            how = crew.system.partition(", ")[2]
            yield Line(f"{crew.name}, {how}", database, crew.value, crew.unit, limit, detail=crew.detail)
    # Of several crews the fastest; only rates have several.
    best = max(crews, key=lambda figure: figure.value or 0.0)
    detail = f"{best.system}; {best.detail}"
    whole = Line(best.name, database, best.value, best.unit, limit, peers, PICK_UP_BARS.get(best.name), detail)
    yield whole
    if work == NO_OP and limit is not None:
        yield Line(f"{work} / the limit", database, whole.ratio, RATIO, bar=OF_THE_LIMIT[database])
    if closest := whole.best_peer:
        who, theirs = closest
        ahead = f"{whole.name}, ahead of the best peer"
        yield Line(ahead, database, whole.ahead_of(theirs), TIMES, bar=AHEAD, detail=f"it is {who}")
    if work in FAR_AHEAD_IN:
        for who, theirs in peers.items():
            if who.partition(" ")[0] in FAR_AHEAD_OF:
                yield Line(f"{work}, ahead of {who}", database, whole.ahead_of(theirs), TIMES, bar=FAR_AHEAD)


def of_figure(figure: Figure) -> Line:
    """A figure that has nothing beside it."""
    return Line(figure.name, figure.database, figure.value, figure.unit, bar=figure.bar, detail=figure.detail)


def as_table(lines: Sequence[Line]) -> str:
    """The lines for people, in aligned columns."""
    heads = ("figure", "database", "value", "unit", "limit", "ratio", "best peer", "bar", "holds")
    rows = [
        (
            line.name,
            line.database,
            shown(line.value),
            line.unit,
            shown(line.limit),
            shown(line.ratio),
            f"{shown(line.best_peer[1])} ({line.best_peer[0]})" if line.best_peer else "",
            line.bar or "",
            {True: "yes", False: "NO", None: ""}[line.holds],
        )
        for line in lines
    ]
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    return "\n".join(_aligned(row, widths) for row in (heads, ["-" * width for width in widths], *rows))


def shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def _aligned(cells: Iterable[str], widths: Sequence[int]) -> str:
    numbers = (2, 4, 5)
    aligned = [
        cell.rjust(width) if column in numbers else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
