"""A timeline: one row per step, with what it waited for and when its code ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from stepwell.look.palette import Look
from stepwell.look.words import span as duration
from stepwell.model.redaction import redacted
from stepwell.web.draw.axis import Axis, Piece, axis_for
from stepwell.web.draw.graph import cut
from stepwell.web.draw.spans import WORDS, Span
from stepwell.web.draw.svg import drawing, element

ROW: Final = 26
NAMES: Final = 190  # the width of the column of names
WIDTH: Final = 1_060
HEAD: Final = 22
# Seconds between two marks of the scale.
_STEPS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200,
                 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800)  # fmt: skip
_MOST_STEPS: Final = 8
_BUSY: Final = ("runs", "queued")


@dataclass(frozen=True, slots=True)
class Row:
    """A step on a timeline."""

    key: str
    name: str
    look: Look
    spans: Sequence[Span]
    depth: int = 0
    href: str | None = None


def draw(rows: Sequence[Row], now: datetime, *, label: str) -> Markup:
    """All rows against one axis; bars are at least 3 wide."""
    every = [span for row in rows for span in row.spans]
    if not every:
        return Markup("")
    first, last = min(span.start for span in every), max(span.end or now for span in every)
    busy = [(span.start, span.end or now) for span in every if span.kind in _BUSY]
    axis = axis_for(busy, first, last, WIDTH - NAMES - 60)
    height = HEAD + ROW * len(rows) + 6
    return drawing(
        WIDTH,
        height,
        [
            *_scale(axis, first, last),
            *_cuts(axis, height),
            *(_row(row, place, axis, now) for place, row in enumerate(rows)),
        ],
        label=label,
        class_="timeline",
        role="group",
    )


def draw_life(spans: Sequence[Span], now: datetime, *, label: str) -> Markup:
    """The life of one step as one bar, as wide as there is room; its durations are written below it."""
    if not spans:
        return Markup("")
    axis = axis_for(
        [(span.start, span.end or now) for span in spans if span.kind in _BUSY],
        spans[0].start,
        spans[-1].end or now,
        WIDTH,
    )
    parts = [_gap(piece, 28, shift=0) for piece in axis.cuts]
    for span in spans:
        left, width = _extent(span, axis, now)
        parts.append(_bar(span, left, 4, width, 20, now))
    return drawing(WIDTH, 28, parts, label=label, class_="timeline life", preserveAspectRatio="none")


def _row(row: Row, place: int, axis: Axis, now: datetime) -> Markup:
    y = HEAD + ROW * place
    name = element(
        "text",
        f"{row.look.sign} {cut(row.name, 26 - row.depth)}",
        x=4 + 8 * row.depth,
        y=y + 16,
        class_="name",
    )
    bars = []
    for span in row.spans:
        left, width = _extent(span, axis, now)
        bars.append(_bar(span, NAMES + left, y + 4, width, 16, now))
    last = row.spans[-1]
    taken = sum(((span.end or now) - span.start).total_seconds() for span in row.spans if span.kind == "runs")
    note = element(
        "text", duration(taken) if taken else "", x=NAMES + axis.x(last.end or now) + 8, y=y + 16, class_="note"
    )
    link = element("a", name, href=row.href) if row.href else name
    return element(
        "g",
        element("rect", x=0, y=y, width=WIDTH, height=ROW, class_="stripe" if place % 2 else "clear"),
        link,
        *bars,
        note,
        class_=f"row s-{row.look.key}",
        data_key=row.key,
    )


def _extent(span: Span, axis: Axis, now: datetime) -> tuple[float, float]:
    left = axis.x(span.start)
    return left, max(axis.x(span.end or now) - left, 3)


def _bar(span: Span, x: float, y: float, width: float, height: float, now: datetime) -> Markup:
    seconds = ((span.end or now) - span.start).total_seconds()
    text = f"{WORDS[span.kind]}, {duration(seconds)}"
    if span.kind == "runs":
        text = f"attempt {span.attempt}: {text}"
    if span.to is not None:
        text += f", then {span.to}"
    if span.error:
        text += f": {cut(redacted(span.error), 200)}"
    failed = " bad" if span.error else ""
    open_ = " open" if span.end is None else ""
    return element(
        "rect",
        element("title", text),
        x=x,
        y=y,
        width=width,
        height=height,
        rx=2,
        class_=f"span {span.kind}{failed}{open_}",
    )


def _scale(axis: Axis, first: datetime, last: datetime) -> list[Markup]:
    """How long after the first moment, in round steps, where there is room and time is not cut."""
    seconds = (last - first).total_seconds()
    step = next((each for each in _STEPS if seconds / each <= _MOST_STEPS), seconds / _MOST_STEPS)
    found, free = [], 0.0
    for place in range(int(seconds / step) + 1 if step else 1):
        moment = first + timedelta(seconds=place * step)
        x = NAMES + axis.x(moment)
        if x >= free and not axis.is_cut(moment):
            text = f"+{duration(place * step)}" if place else "0"
            found.append(element("text", text, x=x, y=14, class_="note", text_anchor="middle"))
            found.append(element("line", x1=x, x2=x, y1=18, y2=HEAD, class_="tick"))
            free = x + 70
    return found


def _cuts(axis: Axis, height: float) -> list[Markup]:
    found = []
    for piece in axis.cuts:
        middle = NAMES + (piece.left + piece.right) / 2
        text = f"// {duration(piece.end - piece.start)}"
        found += [_gap(piece, height), element("text", text, x=middle, y=14, class_="note", text_anchor="middle")]
    return found


def _gap(piece: Piece, height: float, shift: float = NAMES) -> Markup:
    """A stretch of time that is cut."""
    width = piece.right - piece.left
    return element("rect", x=shift + piece.left, y=0, width=width, height=height, class_="cut")
