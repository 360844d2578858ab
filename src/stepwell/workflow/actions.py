"""Operator actions on whole workflows: cancel, retry, resolve. Each is recorded with who did it and why."""

from __future__ import annotations

from stepwell.model.actors import actor_of, reason_of
from stepwell.model.errors import ActionRefused, WorkflowNotFound
from stepwell.model.reasons import REVIVED
from stepwell.model.states import UNFINISHED
from stepwell.model.workflow_states import SETTLED, WorkflowState
from stepwell.operate.revival import refuse_leased, revive_all
from stepwell.store import Database, Transaction, WorkflowChange
from stepwell.store.engine import operator, workflows
from stepwell.store.engine.operator import EndedStep
from stepwell.store.engine.workflows import LockedWorkflow


class WorkflowActions:
    def __init__(self, database: Database) -> None:
        self._database = database

    def cancel(self, workflow_id: str, who: str, why: str | None = None) -> list[int]:
        """End every step that has not ended, and settle as cancelled; returns the ids of the cancelled steps.

        Running code is notified. The workflow settles when its processes have ended.
        """
        actor = actor_of(who)

        def work(tx: Transaction) -> list[int]:
            operator.lock_groups_of_workflow(tx, workflow=workflow_id)
            now = self._database.now()
            changes = operator.cancel_workflow_steps(tx, workflow=workflow_id, actor=actor, now=now)
            row = _locked(tx, workflow_id)
            if row.state in SETTLED:
                raise ActionRefused(f"workflow {workflow_id} has settled ({row.state}); nothing changed")
            operator.record_cancellation(tx, workflow=workflow_id, actor=actor, reason=reason_of(why), now=now)
            tx.touch(workflow_id, actor)
            return [change.step_id for change in changes]

        return self._database.transact(work)

    def retry(self, workflow_id: str, who: str, why: str | None = None) -> list[int]:
        """Return every step that ended without concluding to Pending; returns the ids of the revived steps."""
        actor = actor_of(who)

        def work(tx: Transaction) -> list[int]:
            operator.lock_groups_of_workflow(tx, workflow=workflow_id)
            ids = _revivable(operator.unconcluded_of_workflow(tx, workflow=workflow_id))
            if not ids:
                row = _locked(tx, workflow_id)
                raise ActionRefused(
                    f"workflow {workflow_id} is {row.state}: no step of it failed or was cancelled; nothing changed"
                )
            steps = operator.lock_for_revival(tx, ids=ids)
            refuse_leased(steps)
            reason = reason_of(why) if why else REVIVED
            revive_all(tx, steps, actor, self._database.now(), reason=reason)
            return ids

        return self._database.transact(work)

    def resolve(self, workflow_id: str, who: str, why: str | None = None) -> None:
        """Declare a workflow that ended in error, or was cancelled, as resolved by hand. Its steps stay as they are."""
        actor = actor_of(who)

        def work(tx: Transaction) -> None:
            row = _locked(tx, workflow_id)
            now = self._database.now()
            if not operator.resolve_workflow(tx, workflow=workflow_id, actor=actor, reason=reason_of(why), now=now):
                raise ActionRefused(
                    f"workflow {workflow_id} is {row.state}: only one that ended in error or was cancelled can be "
                    "resolved manually; nothing changed"
                )
            tx.workflow_changes.append(
                WorkflowChange(
                    workflow_id=workflow_id,
                    namespace=row.namespace,
                    name=row.name,
                    version=row.version,
                    from_state=row.state,
                    to_state=WorkflowState.RESOLVED_MANUALLY,
                    reason=reason_of(why),
                    actor=actor,
                    at=now,
                )
            )

        self._database.transact(work)


def _revivable(ended: list[EndedStep]) -> list[int]:
    """All but those below a step that has concluded: nothing can run there. A parent comes before its children."""
    found: set[int] = set()
    for step in ended:
        if step.parent_step_id is None or step.parent_step_id in found or step.parent_state in UNFINISHED:
            found.add(step.id)
    return sorted(found)


def _locked(tx: Transaction, workflow_id: str) -> LockedWorkflow:
    found = workflows.lock_workflows(tx, ids=[workflow_id])
    if not found:
        raise WorkflowNotFound(f"no declared workflow has the id {workflow_id}")
    return found[0]
