"""Bulk actions on whole workflows: the kinds of operations that declared workflows add."""

from __future__ import annotations

from stepwell.model.actors import By
from stepwell.model.errors import ActionRefused
from stepwell.operate.operations import Kind, Undoing, refuses
from stepwell.operate.step_actions import REVIVED, Also
from stepwell.store import Transaction
from stepwell.store.engine import operations
from stepwell.workflow.by_hand.actions import cancel, plan_cancellation, plan_resolution, plan_retry, resolve, retry


def kinds_of_workflows() -> list[Kind]:
    return [
        Kind(
            "cancel_workflow",
            "workflow",
            lambda tx, workflow, parameters: plan_cancellation(tx, workflow),
            lambda tx, workflow, by, parameters: cancel(tx, workflow, by),
            _undo_cancellation,
        ),
        Kind(
            "retry_workflow",
            "workflow",
            lambda tx, workflow, parameters: {REVIVED: [step.id for step in plan_retry(tx, workflow)]},
            lambda tx, workflow, by, parameters: retry(tx, workflow, by),
            _undo_retry,
        ),
        Kind(
            "resolve_workflow",
            "workflow",
            lambda tx, workflow, parameters: plan_resolution(tx, workflow),
            lambda tx, workflow, by, parameters: resolve(tx, workflow, by),
            refuses("a workflow that is resolved stays so, unless one of its steps is retried"),
            can_undo=False,
        ),
    ]


def _undo_cancellation(tx: Transaction, item: Undoing, by: By) -> Also:
    """It settles as cancelled only when its processes have ended: what counts is whose cancellation stands."""
    if not operations.cancellation_stands(tx, operation=item.operation, workflow_id=item.target):
        raise ActionRefused("it was retried or cancelled again meanwhile; nothing changed")
    return retry(tx, item.target, by)


def _undo_retry(tx: Transaction, item: Undoing, by: By) -> Also:
    if item.state != "cancelled":
        raise ActionRefused(f"it had settled as {item.state}, which cannot be restored by hand: cancel it")
    return cancel(tx, item.target, by)
