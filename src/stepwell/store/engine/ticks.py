"""The verbs around a tick: groups with work, the lock and its fence, the tick log, pick and dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.store.changes import Change
from stepwell.store.engine.claims import new_batch
from stepwell.store.statement import change, query, transition_in_tick
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


class AcquiredLock(msgspec.Struct, frozen=True):
    lock_token: int
    ended_early: bool


class Mark(msgspec.Struct, frozen=True):
    """A step whose change may affect others; `state` is None if the step no longer exists."""

    id: int
    step_id: int
    state: State | None
    workflow_id: str | None
    belongs_to: str | None  # the feature that follows the end of this step, even one by plain SQL


class PendingWork(msgspec.Struct, frozen=True):
    unchecked: bool
    exhausted: bool
    due: bool
    undecided: str | None  # the features of undecided steps and due gates, separated by commas

    @property
    def features(self) -> list[str]:
        return sorted(self.undecided.split(",")) if self.undecided else []


@query
def keep_to_indexes(tx: Transaction) -> int:
    """Restrict PostgreSQL's planner to indexes until the end of the transaction."""
    ...


@query
def groups_with_work(tx: Transaction, *, now: datetime) -> list[str | None]:
    """Groups with work; None: work that belongs to no group yet."""
    ...


@query
def groups_with_decisions(tx: Transaction, *, now: datetime) -> list[str | None]:
    """The same without steps that only wait for a free slot: workers poll for those themselves."""
    ...


@query
def groups_held_by_breaker(tx: Transaction) -> list[str]: ...


@change
def delete_idle_marks(tx: Transaction, *, limit: int) -> int:
    """Delete the marks of completed steps that leave nothing to decide."""
    ...


@query
def next_due(tx: Transaction) -> datetime | None:
    """When the first delayed step is due, or the first gate expires."""
    ...


@query
def acquire_lock(tx: Transaction, *, group: str, owner: str, now: datetime, deadline: datetime) -> AcquiredLock | None:
    """Take the lock if it is free or past its deadline. The previous owner sees from the token that it lost it."""
    ...


@query
def begin_tick(tx: Transaction, *, group: str, owner: str, now: datetime) -> int: ...


@change
def set_current_tick(tx: Transaction, *, group: str, token: int, tick: int) -> int: ...


@query
def fence(tx: Transaction, *, group: str, owner: str, token: int) -> int | None:
    """Lock the row of the group lock until the transaction ends; None if the lock is lost."""
    ...


@query
def marks_of_group(tx: Transaction, *, group: str) -> list[Mark]: ...


@change
def delete_marks(tx: Transaction, *, ids: Sequence[int]) -> int: ...


def delete_decided_marks(tx: Transaction, marks: Sequence[Mark], *, actor: str) -> None:
    """Delete marks, whose steps plain SQL may have ended: their features follow that in this transaction."""
    for mark in marks:
        tx.touch_step(mark, mark.step_id, actor)
    delete_marks(tx, ids=[mark.id for mark in marks])


@query
def pending_work(tx: Transaction, *, group: str, now: datetime) -> PendingWork: ...


@query
def lock_queues(tx: Transaction, *, group: str) -> list[str]:
    """Lock the queues of the group's open steps: one dispatch at a time into each."""
    ...


@query
def pick(tx: Transaction, *, group: str, now: datetime, limit: int, spare: int, queues: Sequence[str]) -> list[int]: ...


@transition_in_tick
def dispatch(
    tx: Transaction, *, ids: Sequence[int], actor: str, tick: int, now: datetime, batch: int
) -> list[Change]: ...


def dispatch_picked(
    tx: Transaction, ids: Sequence[int], *, group: str, actor: str, tick: int, now: datetime
) -> list[Change]:
    """Move steps from Pending to Dispatched and wake the workers."""
    if not ids:
        return []
    changes = dispatch(tx, ids=ids, actor=actor, tick=tick, now=now, batch=new_batch())
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
def log_set_aside(tx: Transaction, *, id: int, owner: str, now: datetime, progress: str) -> int: ...


@change
def delete_tick(tx: Transaction, *, tick: int) -> int: ...


@change
def prune_ticks(tx: Transaction, *, group: str, keep: int) -> int: ...


@change
def release_lock(tx: Transaction, *, group: str, token: int, now: datetime, ended_early: bool) -> int: ...
