"""The steps of a workflow as they are shown: now or at an earlier moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stepwell.look import palette
from stepwell.look.palette import Look
from stepwell.look.past import WorkflowThen
from stepwell.look.reader import TreeNode
from stepwell.look.words import reason_words
from stepwell.model.states import CONCLUDED, FAILED, State
from stepwell.model.step import Step
from stepwell.model.workflow_states import WorkflowState
from stepwell.store.engine.outlines import OutlineStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A step with its children, as far as they have been read."""

    id: int
    name: str
    action: str
    look: Look
    word: str
    note: str
    parent: int | None
    type: str = "default"
    index: int | None = None
    template: str = ""
    duration: float | None = None
    own_code_done_at: datetime | None = None
    has_children: bool = False
    children: tuple[Node, ...] = ()

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def now(tree: TreeNode) -> Node:
    return of_step(tree.step, tuple(now(child) for child in tree.children))


def of_step(step: Step | OutlineStep, children: tuple[Node, ...] = ()) -> Node:
    error = step.error_message if isinstance(step, Step) else step.error
    return Node(
        id=step.id,
        name=step.name if step.template is None else step.label or step.template,
        action=step.action,
        look=palette.of_step(
            step.state, is_throttled=step.is_throttled, own_code_done=step.own_code_done_at is not None
        ),
        word=str(step.state),
        note=(error if step.state in FAILED else reason_words(step.reason)) or "",
        parent=step.parent_step_id,
        type=step.type,
        index=step.index,
        template=step.template or "",
        duration=step.duration,
        own_code_done_at=step.own_code_done_at,
        has_children=step.has_children,
        children=children,
    )


def then(found: WorkflowThen, present: Mapping[int, Node]) -> list[Node]:
    """`present` has what never changes."""
    below: dict[int | None, list[Any]] = {}
    known = {step.id for step in found.steps}
    for step in found.steps:
        below.setdefault(step.parent_step_id if step.parent_step_id in known else None, []).append(step)

    def build(step: Any) -> Node:
        return Node(
            id=step.id,
            name=step.label or step.template or step.action,
            action=step.action,
            look=palette.OF_STATE[step.state],
            word=str(step.state),
            note=step.error or reason_words(step.reason),
            parent=step.parent_step_id,
            type=step.type,
            template=step.template or "",
            index=present[step.id].index if step.id in present else None,
            children=tuple(build(child) for child in below.get(step.id, ())),
        )

    return [build(step) for step in below.get(None, ())]


def states_of(nodes: Sequence[Node]) -> Counter[State]:
    return Counter(State(node.word) for top in nodes for _, node in top.walk())


def counts(states: Counter[State]) -> list[tuple[Look, str, int]]:
    return [(palette.OF_STATE[state], str(state), states[state]) for state in State if states[state]]


def state_of(states: Counter[State]) -> str:
    """Of steps without a declared workflow."""
    found = {state for state, number in states.items() if number}
    if any(not state.is_terminal for state in found):
        return WorkflowState.IN_PROGRESS
    if found <= CONCLUDED:
        return WorkflowState.COMPLETE
    return WorkflowState.CANCELLED if found <= CONCLUDED | {State.CANCELLED} else WorkflowState.ERROR
