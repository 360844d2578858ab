"""Errors about steps and workflows that are not there: what became of them, as far as the database knows."""

from __future__ import annotations

from stepwell.model.errors import StepArchived, StepNotFound, WorkflowNotFound
from stepwell.store.engine import retention
from stepwell.store.transaction import Transaction


def missing_step(tx: Transaction, *, id: int | None = None, uuid: str | None = None) -> StepNotFound:
    """The error for a step that is not in `steps`: it was archived, deleted, or never existed."""
    archived = retention.archived_step(tx, id=id, uuid=uuid)
    if archived is not None:
        with_it = retention.archived_with(tx, id=archived.id)
        assert with_it is not None
        return StepArchived(
            f"step {archived.id} ({archived.name}) was archived on {with_it.archived_at:%Y-%m-%d} as {archived.state}; "
            f"it can no longer be changed. `stepwell show {archived.id}` shows it",
            archived,
        )
    if id is not None and 0 < id <= (to := retention.deleted_to(tx)):
        return StepNotFound(
            f"step {id} does not exist: retention has deleted settled workflows with steps up to {to} "
            "(`stepwell doctor` shows how long they are kept)"
        )
    return StepNotFound(f"step {id if id is not None else uuid} does not exist")


def missing_workflow(tx: Transaction, workflow_id: str, *, declared: bool = True) -> WorkflowNotFound:
    """The same for a workflow."""
    archived_at = retention.archived_workflow(tx, workflow=workflow_id)
    if archived_at is not None:
        return WorkflowNotFound(
            f"workflow {workflow_id} was archived on {archived_at:%Y-%m-%d}; it cannot be changed or run again. "
            "Its steps are in `steps_archive`"
        )
    return WorkflowNotFound(f"no {'declared ' if declared else ''}workflow has the id {workflow_id}")
