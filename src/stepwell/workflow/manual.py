"""What a template allows by hand: which steps may be skipped, and which results they may be completed with."""

from __future__ import annotations

from typing import Any

from stepwell.model.errors import ActionRefused
from stepwell.store import Transaction
from stepwell.store.engine import workflows
from stepwell.store.engine.operator import LockedStep
from stepwell.workflow.inputs import decode_plan
from stepwell.workflow.schema import SchemaMismatch, check_value
from stepwell.workflow.template import StepTemplate


def refuse_unskippable(tx: Transaction, step: LockedStep) -> None:
    """Only a step that the template declares as skippable may be skipped by hand."""
    plan = _plan_of(tx, step)
    if plan is not None and not plan.skippable:
        raise ActionRefused(
            f"{step} cannot be skipped: its workflow does not declare it as skippable; nothing changed. "
            "Complete it with a result, or cancel it"
        )


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
    try:
        check_value(result, schema, "the result")
    except SchemaMismatch as mismatch:
        raise ActionRefused(f"{step} cannot be completed with this result: {mismatch}; nothing changed") from mismatch


def skipped_by_input(tx: Transaction, skipped: set[int]) -> set[int]:
    """The steps that will be skipped because these are, at any distance: they cannot run without their results."""
    found: set[int] = set()
    new = set(skipped)
    while new:
        dependents = workflows.waiting_dependents(tx, ids=sorted(new))
        new = {each.id for each in dependents if each.upstream in decode_plan(each.plan).needed} - found - skipped
        found |= new
    return found


def _plan_of(tx: Transaction, step: LockedStep) -> StepTemplate | None:
    if step.template is None:
        return None
    owner = step.id if step.element is None or step.parent_step_id is None else step.parent_step_id
    (row,) = workflows.plans(tx, ids=[owner])
    return None if row.plan is None else decode_plan(row.plan)


def _takers_of(tx: Transaction, step: LockedStep) -> list[str]:
    """The steps that cannot run without the result of this one."""
    plans = [decode_plan(text) for text in workflows.plans_of_dependents(tx, id=step.id)]
    return [
        plan.name
        for plan in plans
        if any(each.source.step == step.template and not each.optional and not each.is_outcome for each in plan.inputs)
        or (plan.each is not None and plan.each.source.step == step.template)
    ]
