"""Taking a preview: freezing what matches, and assessing each step or workflow without changing it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from stepwell.model import codec
from stepwell.model.errors import REFUSALS, ActionRefused
from stepwell.operate.operations.kinds import Kind
from stepwell.store import Database, Transaction
from stepwell.store.engine import operations
from stepwell.store.engine.operations import StepToAssess, WorkflowToAssess
from stepwell.store.filters import check_step_filters, check_workflow_filters

ASSESS_BATCH: Final = 200  # items per transaction, so that each is short: other writers of these steps wait for it
PREVIEW_RETENTION: Final = timedelta(days=1)  # a preview that was not executed by then is deleted by a later one


def take_preview(database: Database, kind: Kind, parameters: Mapping[str, Any], filters: Mapping[str, Any]) -> int:
    """Freeze what matches the filters, and record what would become of each; returns the id of the operation."""
    checked = check_step_filters(filters) if kind.subject == "step" else check_workflow_filters(filters)
    if not checked:
        raise ActionRefused(f"`{kind.name}` in bulk needs at least one filter; nothing changed")

    def freeze(tx: Transaction) -> int:
        now = database.now()
        operations.delete_items_of_previews(tx, before=now - PREVIEW_RETENTION)
        operations.delete_previews(tx, before=now - PREVIEW_RETENTION)
        operation = operations.insert_operation(
            tx,
            kind=kind.name,
            state="previewing",
            filters=codec.encode(filters_to_show(checked)),
            parameters=codec.encode(dict(parameters), "parameters"),
            actor=None,
            reason=None,
            undo_of=None,
            now=now,
        )
        add = operations.freeze_steps if kind.subject == "step" else operations.freeze_workflows
        add(tx, operation=operation, filters=checked)
        return operation

    operation = database.transact(freeze)
    last: int | None = 0
    while last is not None:
        last = database.transact(partial(_assess, operation=operation, kind=kind, parameters=parameters, after=last))
    database.transact(lambda tx: operations.end_preview(tx, id=operation))
    return operation


def filters_to_show(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Selected ids are the items; their list is not kept a second time."""
    return {
        name: f"{len(value)} selected" if name == "id" and isinstance(value, list | tuple | set | frozenset) else value
        for name, value in filters.items()
    }


def _assess(tx: Transaction, *, operation: int, kind: Kind, parameters: Mapping[str, Any], after: int) -> int | None:
    """Assess the next items; returns the id of the last one, or None if there are no more."""
    found: list[StepToAssess] | list[WorkflowToAssess]
    if kind.subject == "step":
        found = operations.steps_to_assess(tx, operation=operation, after=after, limit=ASSESS_BATCH)
    else:
        found = operations.workflows_to_assess(tx, operation=operation, after=after, limit=ASSESS_BATCH)
    expected: list[int] = []
    for each in found:
        try:
            also = kind.plan(tx, each, dict(parameters)) if kind.subject == "step" else _of_workflow(tx, kind, each)
        except REFUSALS as refused:
            operations.record_expected_refusal(tx, id=each.item_id, message=str(refused))
            continue
        expected.append(each.item_id)
        because_of = each.id if isinstance(each, StepToAssess) else None
        for effect, ids in also.items():
            operations.expect_also(tx, operation=operation, ids=ids, effect=effect, because_of=because_of)
    operations.record_expected(tx, ids=expected)
    return found[-1].item_id if found else None


def _of_workflow(tx: Transaction, kind: Kind, each: StepToAssess | WorkflowToAssess) -> dict[str, list[int]]:
    return kind.plan(tx, each.id, {})
