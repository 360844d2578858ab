"""The children that a step waits for, now or once its own code is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepwell.look.explain.facts import Facts
from stepwell.look.explain.found import Found, Goal, Need, behind, later
from stepwell.model.states import CONCLUDED, TROUBLE
from stepwell.store.engine.explaining import StepFacts

HANDLER: Final = "resolve-exception"


def children_to_wait_for(facts: Facts, step: StepFacts, goal: Goal) -> Iterator[Found]:
    """To end, it waits for all children that are unfinished; to complete, its default children must conclude."""
    if step.state in CONCLUDED or (step.state.is_terminal and goal is Goal.ENDED):
        return
    if unfinished := facts.unfinished_children(step):
        nodes = [Need(each, _goal_of_child(facts, each, goal)) for each in unfinished]
        if step.waits_for_children:
            message = f"its own code is done; waiting for {facts.listed(unfinished)}"
            yield behind("children", message, unfinished, nodes=nodes)
        else:
            message = f"it waits for its children: {facts.listed(unfinished)}"
            yield later(behind("children", message, unfinished, nodes=nodes))
    if goal is Goal.CONCLUDED and (bad := _to_revive(facts, step)):
        yield later(behind("children", f"it fails unless these children are revived: {facts.listed(bad)}", bad))


def _goal_of_child(facts: Facts, child: int, goal: Goal) -> Goal:
    """How a handler ends does not matter."""
    row = facts.steps.get(child)
    return Goal.ENDED if row is None or row.type == HANDLER else goal


def _to_revive(facts: Facts, step: StepFacts) -> list[int]:
    rows = (facts.steps.get(member.step_id) for member in facts.children(step) if member.type != HANDLER)
    return [row.id for row in rows if row is not None and row.state in TROUBLE and row.lease_worker is None]
