"""What a template allows by hand: which steps may be skipped, and which results they may be completed with."""

from __future__ import annotations

from typing import Any

from stepwell.model.errors import ActionRefused
from stepwell.model.states import CONCLUDED
from stepwell.store import Transaction
from stepwell.store.engine import inputs
from stepwell.store.engine.operator import LockedStep
from stepwell.workflow.live.inputs import decode_plan
from stepwell.workflow.schemas import problems_of_value
from stepwell.workflow.template import Input, StepTemplate


def refuse_unskippable(tx: Transaction, step: LockedStep) -> None:
    """Only a step that the template declares as skippable may be skipped by hand."""
    plan = _plan_of(tx, step)
    if plan is not None and not plan.skippable:
        raise ActionRefused(
            f"{step} cannot be skipped: its workflow does not declare it as skippable; nothing changed. "
            "Complete it with a result, or cancel it"
        )


def skipped_with(tx: Transaction, workflow_id: str, name: str) -> list[str]:
    """The steps that a skip of this one skips: itself, and whatever cannot run without its result, at any distance."""
    rows = [row for row in inputs.planned_steps(tx, id=workflow_id) if row.element is None and row.plan]
    plans = {row.template: decode_plan(row.plan or "") for row in rows if row.state not in CONCLUDED}
    found, new = {name}, {name}
    while new:
        new = {other for other, plan in plans.items() if other not in found and set(plan.needed) & found}
        found |= new
    return [name, *sorted(found - {name})]


def refuse_bad_result(tx: Transaction, step: LockedStep, result: Any) -> None:
    """A result by hand has the type that the template declares, and is there where another step needs it."""
    plan = _plan_of(tx, step)
    if plan is None:
        return
    is_map = plan.kind == "map" and step.element is None
    schema = {"type": "array", "items": plan.result_schema or {}} if is_map else plan.result_schema
    takers = [name for name in _takers_of(tx, step) if result is None]
    if takers and (schema is None or plan.result_schema is None):
        raise ActionRefused(
            f"{step} cannot be completed without a result: {', '.join(takers)} takes it; nothing changed"
        )
    if result is None and not takers:
        return
    if schema is not None and (found := problems_of_value(schema, result, "result")):
        raise ActionRefused(f"{step} cannot be completed with this result: {'; '.join(found)}; nothing changed")


def skipped_by_input(tx: Transaction, skipped: set[int]) -> set[int]:
    """The steps that will be skipped because these are, at any distance: they cannot run without their results."""
    found: set[int] = set()
    new = set(skipped)
    while new:
        dependents = inputs.waiting_dependents(tx, ids=sorted(new))
        new = {each.id for each in dependents if each.upstream in decode_plan(each.plan).needed} - found - skipped
        found |= new
    return found


def _plan_of(tx: Transaction, step: LockedStep) -> StepTemplate | None:
    if step.template is None:
        return None
    owner = step.id if step.element is None or step.parent_step_id is None else step.parent_step_id
    (row,) = inputs.plans(tx, ids=[owner])
    return None if row.plan is None else decode_plan(row.plan)


def _takers_of(tx: Transaction, step: LockedStep) -> list[str]:
    """The steps that cannot run without the result of this one."""
    is_element = step.element is not None and step.parent_step_id is not None
    owner = step.parent_step_id if is_element else step.id
    plans = [decode_plan(text) for text in inputs.plans_of_dependents(tx, id=owner or step.id)]

    def needs(each: Input) -> bool:
        """A join needs each element, unless it keeps the places of those without a result."""
        can_be_none = each.keeps_skipped if is_element else each.optional
        return each.source.step == step.template and not can_be_none and not each.is_outcome

    return [
        plan.name
        for plan in plans
        if any(map(needs, plan.inputs)) or (plan.each is not None and plan.each.source.step == step.template)
    ]
