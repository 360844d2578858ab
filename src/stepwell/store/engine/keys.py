"""Concurrency keys: of the steps that share one, only some may be on the agenda unblocked."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from stepwell.store.engine.placement import lock_name
from stepwell.store.statement import change, change_and_wake, query
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


@query
def marked_keys(tx: Transaction, *, limit: int) -> list[str]:
    """Keys for which a place may have become free, or for which a step has begun to wait."""
    ...


@change
def delete_key_marks(tx: Transaction, *, key: str) -> int: ...


@change
def block_key_again(tx: Transaction, *, key: str, now: datetime) -> int:
    """Unblocked steps that nobody can begin do not keep the key from the others."""
    ...


@change_and_wake(Wake.WORK)
def unblock_key(tx: Transaction, *, key: str, now: datetime) -> int:
    """The first of those that wait for the key and can begin, as many as there are places."""
    ...


def decide_key(tx: Transaction, key: str, now: datetime) -> int:
    """Give the free places of a key to the steps that wait for it; gives how many were unblocked."""
    lock_name(tx, name=f"concurrency {key}")
    delete_key_marks(tx, key=key)
    block_key_again(tx, key=key, now=now)
    return unblock_key(tx, key=key, now=now)


@query
def keys_without_workers(tx: Transaction, *, now: datetime) -> list[str]:
    """Keys of unblocked steps whose workers have died since."""
    ...


@change_and_wake(Wake.DECISIONS)
def mark_key(tx: Transaction, *, key: str) -> int: ...


@change_and_wake(Wake.DECISIONS)
def mark_keys_under_limit(tx: Transaction, *, kind: str, name: str) -> int: ...


@change_and_wake(Wake.DECISIONS)
def mark_keys_of_lanes(
    tx: Transaction, *, queues: Collection[str], actions: Collection[str], worker: str, now: datetime
) -> int:
    """Keys of steps that wait in these lanes: a worker has come or gone, and no other one serves the lane."""
    ...
