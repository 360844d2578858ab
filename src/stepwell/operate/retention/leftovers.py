"""What a pass does when all steps have been looked at: schedules, operations, the archive."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final

from stepwell.operate.retention.by_hand import PassByHand
from stepwell.operate.retention.removing import Removed
from stepwell.store import Database, Transaction
from stepwell.store.engine import retention as verbs

ROWS_AT_ONCE: Final = 1_000


def remove_leftovers(database: Database, before: datetime) -> None:
    """Executions whose step is gone, their part of the slot ledger, and operations about nothing that is left."""
    after = 0
    while crons := database.read(partial(verbs.crons_with_leftovers, after=after, before=before)):
        for cron in crons:
            while database.transact(partial(_shorten_ledger, cron=cron, before=before)):
                database.let_writers_pass()
        after = crons[-1]
    while database.transact(lambda tx: verbs.delete_operations(tx, before=before, limit=ROWS_AT_ONCE)) == ROWS_AT_ONCE:
        database.let_writers_pass()


def _shorten_ledger(tx: Transaction, cron: int, before: datetime) -> bool:
    """Whether there may be more to delete. From `ledger_from` on the ledger stays complete.

    What has not ended, or still has its step or workflow, stays with its slot, however old it is.
    """
    if verbs.lock_cron(tx, id=cron) is None:  # its scheduler works on it: at the next pass
        return False
    if verbs.delete_executions(tx, job_id=cron, before=before, limit=ROWS_AT_ONCE) == ROWS_AT_ONCE:
        return True
    slots = verbs.delete_slots(tx, job_id=cron, before=before, limit=ROWS_AT_ONCE)
    if slots:
        verbs.ledger_begins_after(tx, job_id=cron, slot=max(slots))
    return len(slots) == ROWS_AT_ONCE


def delete_from_archive(database: Database, before: datetime, size: int, by_hand: PassByHand | None = None) -> int:
    """Delete one batch of workflows that were archived before this; returns the number of steps."""

    def work(tx: Transaction) -> tuple[int, int | None]:
        workflows = verbs.archived_before(tx, before=before, limit=size)
        verbs.delete_old_archived_workflows(tx, before=before)
        if not workflows:
            return 0, None
        ids = verbs.archived_members(tx, workflows=workflows)
        verbs.delete_archived_workflows(tx, workflows=workflows)
        deleted = verbs.delete_archived_steps(tx, ids=ids)
        verbs.count_removed(tx, workflow_count=0, step_count=0, deleted_to=max(ids, default=0))
        return deleted, None if by_hand is None else by_hand.record(tx, Removed(from_archive=deleted), database.now())

    deleted, operation = database.transact(work)
    if deleted and by_hand is not None:
        by_hand.committed(operation, Removed(from_archive=deleted))
    return deleted
