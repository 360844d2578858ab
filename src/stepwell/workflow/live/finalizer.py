"""The finalizer: sets the state of the declared workflows that a transaction touched, just before it commits.

The state follows from the steps (the view `steps_workflow_outcomes`). The rows of the workflows are locked before the
steps are looked at: of two transactions that end the last two steps, the second one sees both ends.
"""

from __future__ import annotations

from stepwell.model.features import WORKFLOW
from stepwell.model.workflow_states import SETTLED
from stepwell.store import Database, Touched, Transaction
from stepwell.store.engine import settling, workflows
from stepwell.store.engine.workflows import Execution


class Finalizer:
    def __init__(self, database: Database) -> None:
        self._database = database
        database.hooks.before_commit(WORKFLOW, self.settle_touched)

    def settle_touched(self, tx: Transaction, touched: Touched) -> None:
        """Settle, or reopen, the workflows of the steps that this transaction changed: each by its own actor."""
        locked = settling.lock_workflows(tx, ids=sorted(map(str, touched)))
        if not locked:
            return
        settling.forget_cancellation(tx, ids=[row.id for row in locked])
        now = self._database.now()
        settled: list[str] = []
        # One in nearly every transaction. A tick also reads the marks of others, and a caller's own transaction or
        # `together` may hold the acts of several.
        for actor in sorted(set(touched.values()), key=str):
            own = [row for row in locked if touched[row.id] == actor]
            changes = settling.settle(tx, locked=own, actor=actor, now=now) if own else []
            settled += [change.workflow_id for change in changes if change.to_state in SETTLED]
        if executions := self._executions(tx, settled):
            tx.describe_workflows(executions)

    def _executions(self, tx: Transaction, ids: list[str]) -> dict[str, Execution]:
        """The steps of workflows in numbers, for those who are notified that they settled."""
        if not ids or not self._database.hooks.follows_workflows():
            return {}
        return {row.workflow_id: row for row in workflows.execution(tx, ids=ids)}
