"""A workflow as a graph: boxes in layers and the edges between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from markupsafe import Markup

from stepwell.look.palette import Look
from stepwell.web.draw import layers
from stepwell.web.draw.layers import Placed
from stepwell.web.draw.svg import drawing, element, number

WIDTH: Final = 176
HEIGHT: Final = 52
ACROSS: Final = 56  # between two layers
DOWN: Final = 20  # between two boxes of a layer
MARGIN: Final = 12
LETTERS: Final = 21  # that fit into a box


@dataclass(frozen=True, slots=True)
class Box:
    """A step, or a stack of like siblings with a bar of their states."""

    key: str
    name: str
    look: Look
    note: str = ""  # the second line
    href: str | None = None
    bar: Sequence[tuple[Look, int]] = field(default=())
    stacked: bool = False


def layout(keys: Sequence[str], edges: Sequence[tuple[str, str]]) -> Placed[str]:
    """Where the boxes are; depends on the structure alone."""
    return layers.place(keys, edges)


def draw(boxes: Sequence[Box], edges: Sequence[tuple[str, str]], placed: Placed[str], *, label: str) -> Markup:
    """The graph as it is now."""
    width = 2 * MARGIN + len(placed.layers) * (WIDTH + ACROSS) - ACROSS
    height = 2 * MARGIN + placed.height * (HEIGHT + DOWN) - DOWN
    lines = [_edge(placed.routes[edge], edge) for edge in edges if edge in placed.routes]
    return drawing(
        max(width, WIDTH),
        max(height, HEIGHT),
        [*lines, *(_box(box, placed.places) for box in boxes)],
        label=label,
        class_="graph",
        scaled=True,
        role="group",
        data_pan="",
    )


def _corner(at: tuple[int, float]) -> tuple[float, float]:
    return MARGIN + at[0] * (WIDTH + ACROSS), MARGIN + at[1] * (HEIGHT + DOWN)


def _edge(route: Sequence[tuple[int, float]], edge: tuple[str, str]) -> Markup:
    points = [_corner(point) for point in route]
    x, y = points[0][0] + WIDTH, points[0][1] + HEIGHT / 2
    path = [f"M{number(x)} {number(y)}"]
    for place, (left, top) in enumerate(points[1:], 1):
        to_x, to_y = left, top + HEIGHT / 2
        path.append(f"C{number(x + ACROSS / 2)} {number(y)} {number(to_x - ACROSS / 2)} {number(to_y)} "
                    f"{number(to_x)} {number(to_y)}")  # fmt: skip
        x, y = to_x, to_y
        if place < len(points) - 1:  # pass the layer on a straight line
            x = left + WIDTH
            path.append(f"H{number(x)}")
    head = f"M{number(x - 6)} {number(y - 4)}L{number(x)} {number(y)}L{number(x - 6)} {number(y + 4)}"
    return element("path", d=" ".join([*path, head]), class_="edge", data_key=f"{edge[0]}>{edge[1]}")


def _box(box: Box, places: Mapping[str, tuple[int, float]]) -> Markup:
    x, y = _corner(places[box.key])
    parts = [element("title", f"{box.name}: {box.look.word}{f', {box.note}' if box.note else ''}")]
    if box.stacked:
        parts.append(element("rect", x=x + 4, y=y - 4, width=WIDTH, height=HEIGHT, rx=9, class_="behind"))
    parts += [
        element("rect", x=x, y=y, width=WIDTH, height=HEIGHT, rx=9, class_="box"),
        element("rect", x=x, y=y, width=5, height=HEIGHT, rx=2.5, class_="side"),
        element("text", box.look.sign, x=x + 14, y=y + 22, class_="sign"),
        element("text", cut(box.name, LETTERS), x=x + 30, y=y + 22, class_="name"),
        element("text", cut(box.note or box.look.word, LETTERS + 4), x=x + 30, y=y + 40, class_="note"),
    ]
    parts += _bar(box, x, y)
    body = element("g", *parts, class_=f"node s-{box.look.key}", data_key=box.key)
    return element("a", body, href=box.href, data_key=f"a-{box.key}") if box.href else body


def _bar(box: Box, x: float, y: float) -> list[Markup]:
    total = sum(count for _, count in box.bar)
    found, start, room = [], x + 12, WIDTH - 24.0
    for look, count in box.bar:
        width = room * count / total
        found.append(
            element("rect", x=start, y=y + HEIGHT - 7, width=max(width, 3), height=4, class_=f"part s-{look.key}")
        )
        start += width
    return found


def cut(text: str, letters: int) -> str:
    """A text that fits.

    >>> cut("a very long name", 10)
    'a very lo…'
    """
    line = " ".join(text.split())
    return line if len(line) <= letters else f"{line[: letters - 1].rstrip()}…"
