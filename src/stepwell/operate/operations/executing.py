"""Executing an operation: batch after batch, each a transaction that acts and records what became of its items.

Whoever executes it may die at any moment: what is recorded is done, and what is not recorded has not happened. Another
call continues with the rest. Two that execute the same operation take turns, because each batch locks its row first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from stepwell.model.actors import By
from stepwell.model.errors import REFUSALS, ActionRefused
from stepwell.operate.operations.kinds import Kind, Kinds, Undoing
from stepwell.operate.operations.pace import items_at_once
from stepwell.operate.step_actions import Also
from stepwell.store import Database, Transaction
from stepwell.store.engine import operations, operator
from stepwell.store.engine.operations import OpenItem, OperationRow

# Items per transaction. Ticks of their groups wait for it, so it is short; each item is a subtransaction, of which
# PostgreSQL keeps 64 in memory.
BATCH: Final = 50
UNDO: Final = "undo"


class OperationExecutor:
    def __init__(self, database: Database, kinds: Kinds) -> None:
        self._database = database
        self._kinds = kinds

    def refuse_undo(self, kind: str) -> None:
        """Raise `ActionRefused` if nothing of this kind can be undone."""
        if kind not in self._kinds:
            raise ActionRefused(f"an operation of the kind `{kind}` cannot be undone; nothing changed")

    def run(self, operation: int) -> None:
        """Execute what is left of an operation, at its pace."""
        while (delay := self.round(operation)) is not None:
            if delay > 0:
                self._database.clock.sleep(delay)

    def round(self, operation: int) -> float | None:
        """One batch. Returns after how many seconds the next one is due, or None when the operation is done."""
        return self._database.transact(lambda tx: self._batch(tx, operation))

    def _batch(self, tx: Transaction, operation: int) -> float | None:
        row = operations.lock_operation(tx, id=operation)
        if row is None or row.state != "running":
            return None
        now = self._database.now()
        if row.next_at is not None and row.next_at > now:
            return (row.next_at - now).total_seconds()
        items = operations.open_items(tx, operation=operation, limit=items_at_once(row.pace, BATCH))
        if items:
            self._act_on_all(tx, row, items)
        if not operations.open_items(tx, operation=operation, limit=1):
            operations.end_operation(tx, id=operation, now=now)
            return None
        if row.pace is None:
            return 0.0
        pause = len(items) / row.pace
        operations.postpone_operation(tx, id=operation, next_at=now + timedelta(seconds=pause))
        return pause

    def _act_on_all(self, tx: Transaction, row: OperationRow, items: list[OpenItem]) -> None:
        undone = self._undone(tx, row)
        kind = self._kinds[row.kind if undone is None else undone.kind]
        act = _act(kind, row.parameters) if undone is None else _undo(kind, undone.id)
        changed = _changed_steps(tx, items) if kind.subject == "step" else _changed_workflows(tx, items)
        by = By(row.actor or "", row.reason, self._database.now())
        # The state of a workflow is undone whatever it did meanwhile: the kind itself knows whether it still can.
        ignores_version = not kind.checks_version or (undone is not None and kind.subject == "workflow")
        done: list[int] = []
        dealt_with: set[int] = set()
        for item in items:
            target: Any = item.step_id if kind.subject == "step" else item.workflow_id
            if item.step_id in dealt_with:
                continue
            if target in changed and not ignores_version:
                operations.record_outcome(tx, id=item.id, outcome="changed", message=changed[target], now=by.now)
                continue
            try:
                with tx.undone_if(REFUSALS):
                    also = act(tx, item, target, by)
            except REFUSALS as refused:
                operations.record_outcome(tx, id=item.id, outcome="refused", message=str(refused), now=by.now)
                continue
            done.append(item.id)
            for effect, ids in also.items():
                dealt_with.update(ids)
                operations.record_also(
                    tx, operation=row.id, ids=ids, effect=effect, because_of=item.step_id, now=by.now
                )
        tx.finalize()  # settles workflows, so that the versions that are recorded are those after the operation
        operations.record_done(tx, ids=done, now=by.now)

    def _undone(self, tx: Transaction, row: OperationRow) -> OperationRow | None:
        return operations.operation(tx, id=row.undo_of) if row.undo_of is not None else None


_Act = Callable[[Transaction, OpenItem, Any, By], Also]


def _act(kind: Kind, parameters: Mapping[str, Any]) -> _Act:
    return lambda tx, item, target, by: kind.act(tx, target, by, dict(parameters))


def _undo(kind: Kind, operation: int) -> _Act:
    return lambda tx, item, target, by: kind.undo(tx, Undoing(target, item.state, operation), by)


def _changed_steps(tx: Transaction, items: list[OpenItem]) -> dict[Any, str]:
    """What has become of the steps that are no longer as they were frozen. All of them are locked from here on."""
    ids = [item.step_id for item in items if item.step_id is not None]
    operator.lock_groups_of_steps(tx, ids=ids)
    operator.lock_for_revival(tx, ids=ids)
    seen = {item.step_id: item.seen for item in items}
    found = {row.id: row for row in operations.step_versions(tx, ids=ids)}
    changed: dict[Any, str] = {
        row.id: f"it has changed meanwhile and is {row.state} ({row.reason or 'no reason'}); not touched"
        for row in found.values()
        if row.version != seen[row.id]
    }
    return changed | dict.fromkeys(set(ids) - found.keys(), "it no longer exists")


def _changed_workflows(tx: Transaction, items: list[OpenItem]) -> dict[Any, str]:
    ids = [item.workflow_id for item in items if item.workflow_id is not None]
    for workflow in ids:
        operator.lock_groups_of_workflow(tx, workflow=workflow)
    seen = {item.workflow_id: item.seen for item in items}
    return {
        row.id: f"it has changed meanwhile and is {row.state}; not touched"
        for row in operations.workflow_versions(tx, ids=ids)
        if row.version != seen[row.id]
    }
