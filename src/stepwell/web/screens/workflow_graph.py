"""A workflow as a graph: boxes for its steps, and one stack for siblings that are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from stepwell.look import palette
from stepwell.look.outline import Census, Outline
from stepwell.look.palette import Look
from stepwell.model.redaction import redacted
from stepwell.model.step import Step
from stepwell.store.engine.outlines import OutlineStep
from stepwell.web.draw import graph
from stepwell.web.draw.layers import Placed
from stepwell.web.screens.asked import Asked
from stepwell.web.screens.workflow_nodes import Node, of_step

# More is unreadable as a graph, unless someone asks for it: the tree is shown.
USUAL_BOXES: Final = 200
MOST_BOXES: Final = 300
STACK_FROM: Final = 4  # this many like siblings become one box
# Predecessors that are looked at for the edges of a large workflow.
MOST_EDGES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Part:
    """What is one box: a step, or siblings that are alike."""

    box: graph.Box
    ids: tuple[int, ...]  # the steps in it, as far as they are known
    level: tuple[str, int]  # type and index: siblings are ordered by it


def of_nodes(asked: Asked, nodes: Sequence[Node]) -> dict[str, Any]:
    """All steps are known. The children of a single root are its graph."""
    root = nodes[0] if len(nodes) == 1 and nodes[0].children else None
    tops = root.children if root is not None else nodes
    parts = [_single(asked, root, show_children=False)] if root is not None else []
    for like in _alike(tops, asked.all("open")):
        parts += [_stack(asked, like)] if len(like) > 1 else [_single(asked, like[0], show_children=True)]
    return _drawn(asked, parts, has_root=root is not None, depends=_edges(asked, parts))


def of_census(asked: Asked, outline: Outline, census: Census, root: Step | None) -> dict[str, Any]:
    """Only counts are known, and the first step of each stack."""
    stacks = census.below(None if root is None else root.id)
    if len(stacks) > MOST_BOXES:
        return {"too_many": len(stacks), "drawing": ""}
    firsts = outline.steps([stack.first for stack in stacks])
    parts = [_single(asked, of_step(root), show_children=False)] if root is not None else []
    for stack in stacks:
        if stack.first not in firsts:  # deleted meanwhile
            continue
        first = of_step(firsts[stack.first])
        if stack.steps == 1:
            parts.append(_of_parent(asked, first, census))
            continue
        bar = _bar(stack.looks)
        box = _box(f"g{stack.first}", stack.name, bar, asked.here(view="tree", open=[*asked.all("open"), stack.key]))
        parts.append(Part(box, (stack.first,), (first.type, stack.index or 1)))
    return _drawn(asked, parts, has_root=root is not None, depends=_edges_of_firsts(asked, outline, parts, stacks))


# boxes --------------------------------------------------------------------------------------------------


def _alike(tops: Sequence[Node], opened: Sequence[str]) -> list[list[Node]]:
    """The steps in their order; siblings of one level that run the same action are together."""
    found: dict[object, list[Node]] = {}
    for node in tops:
        alike = (node.parent, node.type, node.index, node.template, node.action, bool(node.children))
        found.setdefault(alike, []).append(node)
    return [
        part
        for like in found.values()
        for part in ([like] if len(like) >= STACK_FROM and f"g{like[0].id}" not in opened else [[one] for one in like])
    ]


def _single(asked: Asked, node: Node, *, show_children: bool) -> Part:
    below = [child for _, child in node.walk()][1:] if show_children else []
    looks = Counter(child.look.key for child in below)
    return Part(_box_of(asked, node, looks), (node.id,), (node.type, node.index or 1))


def _of_parent(asked: Asked, node: Node, census: Census) -> Part:
    looks: Counter[str] = sum((stack.looks for stack in census.below(node.id)), Counter())
    return Part(_box_of(asked, node, looks), (node.id,), (node.type, node.index or 1))


def _box_of(asked: Asked, node: Node, below: Counter[str]) -> graph.Box:
    note = redacted(node.note) or node.word
    if below:
        note = f"{_note(below)} · {node.word}"
    return graph.Box(
        key=str(node.id), name=node.name, look=node.look, note=note, href=asked.link(f"/steps/{node.id}"),
        bar=_bar(below), stacked=below.total() >= STACK_FROM,
    )  # fmt: skip


def _stack(asked: Asked, like: Sequence[Node]) -> Part:
    key = f"g{like[0].id}"
    bar = _bar(Counter(node.look.key for node in like))
    box = _box(key, like[0].template or like[0].action, bar, asked.here(open=[*asked.all("open"), key]))
    return Part(box, tuple(node.id for node in like), (like[0].type, like[0].index or 1))


def _box(key: str, name: str, bar: Sequence[tuple[Look, int]], href: str) -> graph.Box:
    """A stack has the look of what needs attention most in it."""
    counted = Counter({look.key: number for look, number in bar})
    return graph.Box(
        key=key, name=name, look=_look_of_stack(counted), note=_note(counted), href=href, bar=bar, stacked=True
    )


_FIRST: Final = ("failed", "stopped", "running", "child-running", "dispatched", "throttled", "pending", "not-runnable",
                 "cancelled", "completed", "skipped")  # fmt: skip


def _look_of_stack(looks: Counter[str]) -> Look:
    return palette.BY_KEY[next((key for key in _FIRST if looks[key]), "pending")]


def _bar(looks: Counter[str]) -> list[tuple[Look, int]]:
    return [(look, looks[key]) for key, look in palette.BY_KEY.items() if looks[key]]


def _note(looks: Counter[str]) -> str:
    bad = looks["failed"] + looks["stopped"]
    return f"×{looks.total():,}" + (f" ✗{bad:,}" if bad else "")


# edges --------------------------------------------------------------------------------------------------


def _edges(asked: Asked, parts: Sequence[Part]) -> list[tuple[str, str]]:
    ids = [each for part in parts for each in part.ids]
    box_of = {each: part.box.key for part in parts for each in part.ids}
    return _between(asked.app.reader.edges_to(ids), box_of)


def _edges_of_firsts(asked: Asked, outline: Outline, parts: Sequence[Part], stacks: Sequence[Any]) -> list[Any]:
    """What the first step of each stack depends on stands for all of them."""
    depends = asked.app.reader.edges_to([each for part in parts for each in part.ids], MOST_EDGES)
    box_of = {each: part.box.key for part in parts for each in part.ids}
    keys = {(stack.parent, stack.template, stack.action): stack for stack in stacks}
    others = outline.steps(sorted({other for each in depends.values() for other in each} - box_of.keys()))
    for step in others.values():
        box_of |= _box_with(step, keys)
    return _between(depends, box_of)


def _box_with(step: OutlineStep, stacks: Mapping[Any, Any]) -> dict[int, str]:
    stack = stacks.get((step.parent_step_id, step.template or "", step.action))
    return {} if stack is None else {step.id: stack.key if stack.steps > 1 else str(stack.first)}


def _between(depends: Mapping[int, Sequence[int]], box_of: Mapping[int, str]) -> list[tuple[str, str]]:
    edges = [
        (box_of[other], box_of[each])
        for each, others in depends.items()
        for other in others
        if each in box_of and other in box_of
    ]
    return [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1]]


def _index_edges(parts: Sequence[Part], known: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Children are ordered by their index: each level comes after the one before, the first after the root."""
    has_edges = {target for _, target in known}
    root, *rest = parts
    levels: dict[int, list[Part]] = {}
    for part in rest:
        if part.level[0] == "default":
            levels.setdefault(part.level[1], []).append(part)
    handlers = [part for part in rest if part.level[0] != "default"]
    found, before = [], [root]
    for level in [*(levels[index] for index in sorted(levels)), handlers]:
        found += [(one.box.key, other.box.key) for one in before for other in level if other.box.key not in has_edges]
        before = level
    return found


# ----------------------------------------------------------------------------------------------------------


def _drawn(asked: Asked, parts: Sequence[Part], *, has_root: bool, depends: list[tuple[str, str]]) -> dict[str, Any]:
    most = MOST_BOXES if asked.number("most") == MOST_BOXES else USUAL_BOXES
    if len(parts) > most:
        return {"too_many": len(parts)}
    edges = [*depends, *(_index_edges(parts, depends) if has_root else ())]
    boxes = [part.box for part in parts]
    placed = _layout(tuple(box.key for box in boxes), tuple(edges))
    return {"drawing": graph.draw(boxes, edges, placed, label="The steps of the workflow and their order")}


@lru_cache(maxsize=256)
def _layout(keys: tuple[str, ...], edges: tuple[tuple[str, str], ...]) -> Placed[str]:
    return graph.layout(keys, edges)
