"""A time axis that cuts long idle stretches, so that the rest stays readable."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

# A stretch in which nothing runs is cut if it is this many times longer than all in which something runs.
_IDLE_TIMES: Final = 4
CUT_WIDTH: Final = 64.0


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of time and where it is drawn; a cut one is drawn narrow."""

    start: float
    end: float
    left: float
    right: float
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Axis:
    pieces: tuple[Piece, ...]

    def x(self, moment: datetime) -> float:
        """Where a moment is drawn."""
        at = moment.timestamp()
        place = max(bisect_right([piece.start for piece in self.pieces], at) - 1, 0)
        piece = self.pieces[place]
        share = (at - piece.start) / (piece.end - piece.start) if piece.end > piece.start else 0
        return piece.left + (piece.right - piece.left) * min(max(share, 0), 1)

    def is_cut(self, moment: datetime) -> bool:
        return any(piece.start < moment.timestamp() < piece.end for piece in self.cuts)

    @property
    def cuts(self) -> list[Piece]:
        return [piece for piece in self.pieces if piece.is_cut]


def axis_for(busy: Sequence[tuple[datetime, datetime]], first: datetime, last: datetime, width: float) -> Axis:
    """An axis from `first` to `last`. `busy` are the stretches in which something ran."""
    stretches = _merged([(start.timestamp(), end.timestamp()) for start, end in busy])
    begin, end = first.timestamp(), max(last.timestamp(), first.timestamp() + 0.001)
    total_busy = sum(stop - start for start, stop in stretches) or end - begin
    gaps = []
    for (_, stop), (start, _) in zip([(begin, begin), *stretches], [*stretches, (end, end)], strict=True):
        if stretches and start - stop > _IDLE_TIMES * total_busy and start - stop > 1:
            gaps.append((stop, start))
    drawn = width - CUT_WIDTH * len(gaps)
    seconds = (end - begin) - sum(stop - start for start, stop in gaps)
    pieces, at, left = [], begin, 0.0
    for start, stop in [*gaps, (end, end)]:
        if start > at:
            right = left + drawn * (start - at) / max(seconds, 0.001)
            pieces.append(Piece(at, start, left, right, False))
            left = right
        if stop > start:
            pieces.append(Piece(start, stop, left, left + CUT_WIDTH, True))
            left += CUT_WIDTH
        at = stop
    return Axis(tuple(pieces or [Piece(begin, end, 0, width, False)]))


def _merged(stretches: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Stretches that touch, as one.

    >>> _merged([(5, 6), (1, 3), (2, 4)])
    [(1, 4), (5, 6)]
    """
    found: list[tuple[float, float]] = []
    for start, end in sorted(stretches):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
