"""Concurrency keys: of the steps that share one, no more than its limit are admitted to the agenda.

When one of them releases its key, the next is admitted.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from stepwell.store import Database, Transaction
from stepwell.store.engine import keys

KEYS_AT_ONCE: Final = 500


def unblock_keys(tx: Transaction, now: datetime) -> int:
    """Admit steps of each marked key up to its limit; returns how many were admitted.

    Only steps that a live worker serves: a step that cannot run now does not block the others with its key.
    """
    return sum(keys.decide_key(tx, key, now) for key in sorted(keys.marked_keys(tx, limit=KEYS_AT_ONCE)))


def recheck_keys_of_lanes(
    database: Database, queues: Collection[str], actions: Collection[str], worker: str, now: datetime
) -> None:
    """Mark the keys in these lanes to be decided again, after a worker was registered or removed.

    In a transaction of its own, after that change is committed: a key decided earlier would not see the change.
    """

    database.transact(
        lambda tx: keys.mark_keys_of_lanes(tx, queues=sorted(queues), actions=sorted(actions), worker=worker, now=now)
    )


def recheck_keys_of_dead_workers(database: Database, now: datetime) -> None:
    """Mark the keys of dead workers' steps to be decided again."""
    if left := database.read(lambda tx: keys.keys_without_workers(tx, now=now)):
        database.transact(lambda tx: [keys.mark_key(tx, key=key) for key in left])
