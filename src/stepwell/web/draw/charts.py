"""Small charts: a value per minute as a line with its area, and bars of parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from stepwell.look.palette import Look
from stepwell.web.draw.svg import drawing, element, number

WIDTH: Final = 240
HEIGHT: Final = 44
_TOP: Final = 4


def sparkline(
    values: Sequence[float | None], *, label: str, class_: str = "", gaps: Sequence[tuple[float, float]] = ()
) -> Markup:
    """A line over the values, the oldest first; None is a minute without one.

    `gaps`: from where to where, as shares of the width, dispatching was off.
    """
    highest = max((value for value in values if value is not None), default=0) or 1
    step = WIDTH / max(len(values) - 1, 1)
    marks = [
        element("rect", x=start * WIDTH, y=0, width=max((end - start) * WIDTH, 1.5), height=HEIGHT, class_="gap")
        for start, end in gaps
    ]
    parts: list[Markup] = []
    for run in _runs(values):
        points = [(place * step, HEIGHT - (HEIGHT - _TOP) * value / highest) for place, value in run]
        line = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        if len(points) == 1:
            parts.append(element("circle", cx=points[0][0], cy=points[0][1], r=1.5, class_="dot"))
            continue
        area = f"{number(points[0][0])},{HEIGHT} {line} {number(points[-1][0])},{HEIGHT}"
        parts += [element("polygon", points=area, class_="area"), element("polyline", points=line, class_="line")]
    return drawing(
        WIDTH, HEIGHT, [*marks, *parts], label=label, class_=f"spark {class_}".strip(), preserveAspectRatio="none"
    )


def share_bar(parts: Sequence[tuple[Look, int]], *, label: str) -> Markup:
    """Parts of a whole, side by side; a part that exists is at least 3 wide."""
    total = sum(count for _, count in parts)
    drawn, start = [], 0.0
    for look, count in parts:
        if count:
            width = WIDTH * count / total
            tip = element("title", f"{look.word}: {count:,}")
            drawn.append(
                element("rect", tip, x=start, y=0, width=max(width, 3), height=8, class_=f"part s-{look.key}",
                        data_key=look.key)
            )  # fmt: skip
            start += width
    return drawing(WIDTH, 8, drawn, label=label, class_="bar", preserveAspectRatio="none")


def meter(part: float, whole: float, *, label: str, class_: str = "") -> Markup:
    """How much of something is used."""
    width = WIDTH * min(max(part / whole, 0), 1) if whole else 0
    return drawing(
        WIDTH,
        8,
        [
            element("rect", x=0, y=0, width=WIDTH, height=8, class_="empty"),
            element("rect", x=0, y=0, width=width, height=8, class_="used"),
        ],
        label=label,
        class_=f"bar {class_}".strip(),
        preserveAspectRatio="none",
    )


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The stretches without a gap.

    >>> _runs([1, None, 2, 3])
    [[(0, 1)], [(2, 2), (3, 3)]]
    """
    found: list[list[tuple[int, float]]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            found.append([])
        else:
            found[-1].append((place, value))
    return [run for run in found if run]
