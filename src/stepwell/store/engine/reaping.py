"""The queries and transitions of the reaper."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.store.changes import Change
from stepwell.store.statement import change, query, transition
from stepwell.store.transaction import Transaction


class DeadLease(msgspec.Struct, frozen=True):
    id: int
    action: str
    state: State
    rescues: int
    lease_worker: str
    lease_token: int
    alive_until: datetime | None  # None: the worker has no row any more
    heartbeat_at: datetime | None


class LeaseKey(msgspec.Struct, frozen=True):
    id: int
    lease_token: int


class Unclaimed(msgspec.Struct, frozen=True):
    id: int
    action: str


class WorkerHeartbeat(msgspec.Struct, frozen=True):
    id: str
    heartbeat_at: datetime
    alive_until: datetime


class NextRunnable(msgspec.Struct, frozen=True):
    group: str
    step_id: int


@query
def dead_leases(tx: Transaction, *, of_tasks: bool, now: datetime) -> list[DeadLease]:
    """Those of running tasks of main processes (`of_tasks`), or all others."""
    ...


@query
def still_dead(tx: Transaction, *, ids: Sequence[int], now: datetime) -> list[LeaseKey]:
    """The same check, repeated in the transaction that ends the leases of these steps."""
    ...


@query
def heartbeats(tx: Transaction) -> list[WorkerHeartbeat]:
    """The last heartbeat of every worker that has not expired."""
    ...


@change
def expire_worker(tx: Transaction, *, worker: str, heartbeat_at: datetime, now: datetime) -> int:
    """End the lease of a worker, unless it has written another heartbeat."""
    ...


@query
def unclaimed(tx: Transaction, *, now: datetime, before: datetime) -> list[Unclaimed]:
    """Dispatched steps whose lane no live worker serves, or that no worker has claimed since `before`."""
    ...


@transition
def recover(tx: Transaction, *, id: int, actor: str, now: datetime) -> list[Change]: ...


@query
def has_expired_rows(tx: Transaction, *, now: datetime, before: datetime) -> bool | None: ...


@change
def delete_dead_workers(tx: Transaction, *, before: datetime) -> int: ...


@change
def release_dead_locks(tx: Transaction, *, now: datetime) -> int: ...


@query
def next_runnable_by_group(tx: Transaction, *, now: datetime) -> list[NextRunnable]:
    """For each group, the first step that a free slot could claim now."""
    ...
