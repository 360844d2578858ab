"""Creating steps: their rows, and the updates to existing steps, blocks, agenda and marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stepwell.store.engine.claims import new_batch
from stepwell.store.engine.tallying import tally_created
from stepwell.store.macros import SQLITE
from stepwell.store.statement import change, change_and_wake, query
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


class KeyedStep(msgspec.Struct, frozen=True):
    id: int
    uuid: str
    action: str
    arguments: str
    idempotency_key: str


@query
def rotation(tx: Transaction) -> list[str]:
    """The groups that root steps are assigned to in rotation."""
    ...


@change
def ensure_group(tx: Transaction, *, group: str) -> int: ...


@query
def queue_names(tx: Transaction) -> list[str]: ...


@change
def add_queue(tx: Transaction, *, name: str) -> int: ...


@query
def next_step_ids(tx: Transaction, *, count: int) -> int | list[int]: ...


@query
def next_rotation_numbers(tx: Transaction, *, count: int) -> int | list[int]: ...


def _numbers(found: int | list[int], count: int) -> Sequence[int]:
    """SQLite returns the last number (its write lock makes the range ours), PostgreSQL every number of a sequence."""
    return range(found - count + 1, found + 1) if isinstance(found, int) else found


def reserve_step_ids(tx: Transaction, count: int) -> Sequence[int]:
    return _numbers(next_step_ids(tx, count=count), count)


def reserve_rotation_numbers(tx: Transaction, count: int) -> Sequence[int]:
    return _numbers(next_rotation_numbers(tx, count=count), count)


@query
def create_independent(
    tx: Transaction,
    *,
    uuid: str,
    action: str,
    arguments: str,
    label: str | None,
    relatable_type: str | None,
    relatable_id: str | None,
    queue: str,
    rotation: Sequence[str],
    priority: str,
    max_retries: int,
    dispatch_after: datetime | None,
    timeout: float,
    cooldown: float,
    concurrency_key: str | None,
    concurrency_limit: int,
    now: datetime,
    wakes: Sequence[str],
) -> int:
    """Create a step without connections to others, in one round trip; safe to repeat. Returns its id."""
    ...


def wakes_of_new(tx: Transaction, *, concurrency_key: str | None, dispatch_after: datetime | None) -> list[str]:
    """The wake-ups that `create_independent` sends: a tick opens what has a key or is due later."""
    needs_a_tick = concurrency_key is not None or dispatch_after is not None
    return tx.wakes_to_send(Wake.WORK, *([Wake.DECISIONS] if needs_a_tick else []))


def insert_steps(tx: Transaction, columns: Mapping[str, Sequence[Any]], same: Mapping[str, Any]) -> None:
    """Insert steps by columns; `same` are those with one value in all rows."""
    if any(name in columns or same.get(name) is not None for name in ("concurrency_key", "dispatch_after")):
        tx.wake(Wake.DECISIONS)  # as for `wakes_of_new`
    if tx.dialect == SQLITE:
        tally_created(tx, columns, same)
        same = {**same, "batch": new_batch()}
    tx.insert("steps", list(columns), zip(*columns.values(), strict=True), same)


def insert_edges(tx: Transaction, edges: Iterable[tuple[int, int]]) -> None:
    """Insert DAG edges: (step, dependency)."""
    tx.insert("step_dependencies", ("step_id", "depends_on_id"), edges)


@query
def lock_keys(tx: Transaction, *, keys: Sequence[str]) -> int: ...


@query
def steps_with_keys(tx: Transaction, *, keys: Sequence[str]) -> list[KeyedStep]: ...


@change
def set_child_block(tx: Transaction, *, id: int, child_block: str) -> int: ...


@change
def set_has_dependents(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def set_block_has_dependents(tx: Transaction, *, block: str) -> int: ...


@change
def add_block_members(tx: Transaction, *, block: str) -> int: ...


@change
def mark_unchecked_successors(tx: Transaction, *, block: str, type: str, index: int) -> int: ...


@change
def remove_successors_from_agenda(tx: Transaction, *, block: str, type: str, index: int) -> int:
    """A step was inserted before others of its block: those not dispatched yet now wait for it."""
    ...


@change
def add_to_blocks(tx: Transaction, *, first: int, last: int, ids: Sequence[int] | None) -> int: ...


@change_and_wake(Wake.WORK)
def add_to_agenda(tx: Transaction, *, first: int, last: int, ids: Sequence[int] | None, now: datetime) -> int:
    """Put steps that wait for no other step straight on the agenda."""
    ...


@change_and_wake(Wake.DECISIONS)
def add_marks(tx: Transaction, *, first: int, last: int, ids: Sequence[int] | None) -> int:
    """Mark the others for the next tick, unless the end of another step will open them."""
    ...
