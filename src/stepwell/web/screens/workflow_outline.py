"""A large workflow as a tree that is read where it is opened: stacks of like siblings with their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from stepwell.look import palette
from stepwell.look.outline import Census, Outline, Stack
from stepwell.model.step import Step
from stepwell.web.draw.charts import share_bar
from stepwell.web.screens.asked import Asked
from stepwell.web.screens.workflow_nodes import Node, of_step

# A workflow with more steps is shown in this way: with 1,000, its page is 300 kB, and takes 100 ms.
LARGE: Final = 1_000
SHOWN: Final = 100  # of what is opened
MOST_OPEN: Final = 20
MOST_LINES: Final = 300  # of one parent
MOST_NEEDED: Final = 20  # failed and running steps, each


@dataclass(frozen=True, slots=True)
class Line:
    """A step or a stack, what is below it as far as it is open, and where it is opened or closed."""

    key: str
    node: Node | None = None
    stack: Stack | None = None
    bar: Markup | None = None
    looks: Sequence[tuple[Any, int]] = ()
    toggle: str | None = None
    is_open: bool = False
    below: tuple[Line, ...] = ()
    more: str | None = None  # all steps as a list, if not all are shown


def of_census(asked: Asked, outline: Outline, census: Census, root: Step | None) -> dict[str, Any]:
    writer = _Writer(asked, outline, census)
    if root is not None:
        lines = [Line(f"s{root.id}", of_step(root), below=writer.below(root.id), is_open=True)]
    else:
        lines = list(writer.below(None))
    return {
        "lines": lines,
        "failed": [of_step(step) for step in outline.failed(None if root is None else root.id, MOST_NEEDED)],
        "in_flight": [of_step(step) for step in outline.in_flight(MOST_NEEDED)],
    }


class _Writer:
    def __init__(self, asked: Asked, outline: Outline, census: Census) -> None:
        self._asked = asked
        self._outline = outline
        self._census = census
        self._open = asked.all("open")[:MOST_OPEN]

    def below(self, parent: int | None) -> tuple[Line, ...]:
        stacks = self._census.below(parent)
        if parent is not None and not stacks:  # not told apart: there are too many
            return tuple(self._steps([of_step(step) for step in self._outline.children(parent, 0, SHOWN)]))
        single = self._outline.steps([stack.first for stack in stacks[:MOST_LINES] if stack.steps == 1])
        found: list[Line] = []
        for stack in stacks[:MOST_LINES]:
            if stack.steps > 1:
                found.append(self._stack(stack))
            elif stack.first in single:
                found += self._steps([of_step(single[stack.first])])
        return tuple(found)

    def _stack(self, stack: Stack) -> Line:
        looks = [(look, stack.looks[key]) for key, look in palette.BY_KEY.items() if stack.looks[key]]
        is_open = stack.key in self._open
        members = self._outline.members(stack, SHOWN) if is_open else []
        all_of_it = {"parent": stack.parent} if stack.parent else {"workflow": self._asked.params["id"]}
        return Line(
            stack.key,
            stack=stack,
            bar=share_bar(looks, label=f"{stack.name}: {stack.steps:,} steps"),
            looks=looks,
            toggle=self._toggle(stack.key),
            is_open=is_open,
            below=tuple(self._steps([of_step(step) for step in members])),
            more=self._asked.link("/steps", action=stack.action, **all_of_it) if stack.steps > len(members) else None,
        )

    def _steps(self, nodes: Sequence[Node]) -> list[Line]:
        found = []
        for node in nodes:
            key = f"s{node.id}"
            is_open = node.has_children and key in self._open
            found.append(
                Line(
                    key,
                    node=node,
                    toggle=self._toggle(key) if node.has_children else None,
                    is_open=is_open,
                    below=self.below(node.id) if is_open else (),
                    more=self._asked.link("/steps", parent=node.id) if is_open else None,
                )
            )
        return found

    def _toggle(self, key: str) -> str:
        if key in self._open:
            return self._asked.here(open=[each for each in self._open if each != key])
        return self._asked.here(open=[*self._open, key])
