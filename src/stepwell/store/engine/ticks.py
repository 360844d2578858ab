"""The frame of a tick: what there is to do, the lock with its fence, the tick log, pick and dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.store.changes import Change
from stepwell.store.statement import change, query, transition_in_tick
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


class AcquiredLock(msgspec.Struct, frozen=True):
    lock_token: int
    ended_early: bool


class Mark(msgspec.Struct, frozen=True):
    """A step whose change may decide something; `state` is None if the step is gone."""

    id: int
    state: State | None


class PendingWork(msgspec.Struct, frozen=True):
    unchecked: bool
    exhausted: bool
    due: bool


@query
def keep_to_indexes(tx: Transaction) -> int:
    """Keep PostgreSQL's planner to indexes until the end of the transaction."""
    ...


@query
def groups_with_work(tx: Transaction, *, now: datetime) -> list[str | None]:
    """Groups that have something to do; None: something that belongs to no group yet."""
    ...


@query
def groups_with_decisions(tx: Transaction, *, now: datetime) -> list[str | None]:
    """The same without the steps that only wait for a free slot: workers look for those themselves."""
    ...


@change
def delete_idle_marks(tx: Transaction, *, limit: int) -> int:
    """Marks of completed steps that leave nothing to decide."""
    ...


@query
def next_due(tx: Transaction) -> datetime | None:
    """When the first delayed step is due."""
    ...


@query
def acquire_lock(tx: Transaction, *, group: str, owner: str, now: datetime, deadline: datetime) -> AcquiredLock | None:
    """Free, or past its deadline. The previous owner learns from the token that it lost the lock."""
    ...


@query
def begin_tick(tx: Transaction, *, group: str, owner: str, now: datetime) -> int: ...


@change
def set_current_tick(tx: Transaction, *, group: str, token: int, tick: int) -> int: ...


@query
def fence(tx: Transaction, *, group: str, owner: str, token: int, idle_ms: str) -> int | None:
    """Hold the lock's row to the end of the transaction; None if the lock is lost."""
    ...


@query
def marks_of_group(tx: Transaction, *, group: str) -> list[Mark]: ...


@change
def delete_marks(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@query
def pending_work(tx: Transaction, *, group: str, now: datetime) -> PendingWork: ...


@query
def lock_queues(tx: Transaction, *, group: str) -> list[str]:
    """The queues that open steps of the group wait for: one dispatch at a time into each."""
    ...


@query
def pick(tx: Transaction, *, group: str, now: datetime, limit: int, spare: int, queues: Sequence[str]) -> list[int]: ...


@transition_in_tick
def dispatch(tx: Transaction, *, ids: Sequence[int], actor: str, tick: int, now: datetime) -> list[Change]: ...


def dispatch_picked(
    tx: Transaction, ids: Sequence[int], *, group: str, actor: str, tick: int, now: datetime
) -> list[Change]:
    """Pending to Dispatched, and the workers of the queues are woken."""
    if not ids:
        return []
    changes = dispatch(tx, ids=ids, actor=actor, tick=tick, now=now)
    record_selection(tx, group=group, now=now)
    if changes:
        tx.wake(Wake.WORK)
    return changes


@change
def record_selection(tx: Transaction, *, group: str, now: datetime) -> int: ...


@change
def end_tick(
    tx: Transaction,
    *,
    tick: int,
    now: datetime,
    progress: str,
    dispatched: int,
    duration_ms: float,
    error: str | None,
) -> int: ...


@change
def delete_tick(tx: Transaction, *, tick: int) -> int: ...


@change
def prune_ticks(tx: Transaction, *, group: str, keep: int) -> int: ...


@change
def release_lock(tx: Transaction, *, group: str, token: int, now: datetime, ended_early: bool) -> int: ...
