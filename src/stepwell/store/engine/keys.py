"""Concurrency keys: no more than `concurrency_limit` steps with one key are unblocked, dispatched or running."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from stepwell.store.engine.placement import lock_name
from stepwell.store.statement import change, change_and_wake, query
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


@query
def marked_keys(tx: Transaction, *, limit: int) -> list[str]:
    """Keys that may have dropped below their limit, or that a new step waits for."""
    ...


@change
def delete_key_marks(tx: Transaction, *, key: str) -> int: ...


@change
def block_key_again(tx: Transaction, *, key: str, now: datetime) -> int:
    """Block unblocked steps that no worker can start, so that they do not keep the key from the others."""
    ...


@change_and_wake(Wake.WORK)
def unblock_key(tx: Transaction, *, key: str, now: datetime) -> int:
    """Unblock the first steps that wait for the key and can start, up to the limit."""
    ...


def decide_key(tx: Transaction, key: str, now: datetime) -> int:
    """Unblock steps that wait for a key, up to its limit; returns how many."""
    lock_name(tx, name=f"concurrency {key}")
    delete_key_marks(tx, key=key)
    block_key_again(tx, key=key, now=now)
    return unblock_key(tx, key=key, now=now)


@query
def keys_without_workers(tx: Transaction, *, now: datetime) -> list[str]:
    """Keys of unblocked steps whose lane no live worker serves any more."""
    ...


@change_and_wake(Wake.DECISIONS)
def mark_key(tx: Transaction, *, key: str) -> int: ...


@change_and_wake(Wake.DECISIONS)
def mark_keys_under_limit(tx: Transaction, *, kind: str, name: str) -> int: ...


@change_and_wake(Wake.DECISIONS)
def mark_keys_of_lanes(
    tx: Transaction, *, queues: Collection[str], actions: Collection[str], worker: str, now: datetime
) -> int:
    """Mark the keys of steps that wait in these lanes: a worker started or stopped, and no other one serves them."""
    ...
