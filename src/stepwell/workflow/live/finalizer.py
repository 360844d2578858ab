"""The finalizer: sets the state of the declared workflows that a transaction touched, just before it commits.

The state follows from the steps (the view `steps_workflow_outcomes`). The rows of the workflows are locked before the
steps are looked at: of two transactions that end the last two steps, the second one sees both ends.
"""

from __future__ import annotations

from stepwell.model.features import WORKFLOW
from stepwell.model.workflow_states import SETTLED
from stepwell.store import Database, Touched, Transaction, WorkflowChange
from stepwell.store.engine import settling, workflows
from stepwell.store.engine.workflows import Execution


class Finalizer:
    def __init__(self, database: Database) -> None:
        self._database = database
        database.hooks.before_commit(WORKFLOW, self.settle_touched)

    def settle_touched(self, tx: Transaction, touched: Touched) -> None:
        """Settle, or reopen, the workflows of the steps that this transaction changed."""
        before = {row.id: row for row in settling.lock_workflows(tx, ids=sorted(map(str, touched)))}
        if not before:
            return
        ids = sorted(before)
        settling.forget_cancellation(tx, ids=ids)
        # All steps of one transaction are changed by one actor, but for a tick that also reads marks of others.
        actor = next(iter(touched.values()))
        settled = settling.settle(tx, ids=ids, actor=actor, now=self._database.now())
        executions = self._executions(tx, [row.id for row in settled if row.state in SETTLED])
        for row in settled:
            old = before[row.id]
            tx.workflow_changed(
                WorkflowChange(
                    workflow_id=row.id,
                    namespace=old.namespace,
                    name=old.name,
                    version=old.version,
                    from_state=old.state,
                    to_state=row.state,
                    reason=row.reason,
                    actor=actor,
                    at=row.updated_at,
                    execution=executions.get(row.id),
                    belongs_to=old.belongs_to,
                )
            )

    def _executions(self, tx: Transaction, ids: list[str]) -> dict[str, Execution]:
        """The steps of workflows in numbers, for those who are notified that they settled."""
        if not ids or not self._database.hooks.follows_workflows():
            return {}
        return {row.workflow_id: row for row in workflows.execution(tx, ids=ids)}
