"""Forgetting old executions and ledger rows. What a schedule must keep is on its own row."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from stepwell.store import Database, Transaction
from stepwell.store.engine import slots

BATCH: Final = 1_000  # rows per transaction: a few milliseconds under the write lock of SQLite


def prune(database: Database, before: datetime) -> int:
    """Delete in batches; the ledger is complete from `before` on."""
    database.transact(lambda tx: slots.raise_ledger_from(tx, before=before))
    total = 0

    def work(tx: Transaction) -> int:
        return slots.prune_slots(tx, before=before, limit=BATCH) + slots.prune_executions(
            tx, before=before, limit=BATCH
        )

    while done := database.transact(work):
        total += done
    return total
