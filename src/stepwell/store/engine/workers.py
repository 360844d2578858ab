"""Worker rows, lanes and leases."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class HeldLease(msgspec.Struct, frozen=True):
    id: int
    lease_token: int
    state: State


class LaneRow(msgspec.Struct, frozen=True):
    queue: str
    action: str


@change
def register_worker(
    tx: Transaction, *, id: str, hostname: str, pid: int, slots: int, now: datetime, alive_until: datetime
) -> int: ...


def add_lanes(tx: Transaction, worker: str, lanes: Iterable[tuple[str, str, str, int]]) -> None:
    """Record the lanes of a worker: (queue, action, group or none, position of the queue in the worker's order)."""
    rows = [(queue, action, group, worker, place) for queue, action, group, place in lanes]
    tx.insert("steps_worker_lanes", ("queue", "action", "group", "worker_id", "place"), rows)


@query
def leases_of_worker(tx: Transaction, *, worker: str) -> list[HeldLease]:
    """Every lease that the worker holds, with the current state of its step."""
    ...


@query
def is_registered(tx: Transaction, *, worker: str) -> bool | None: ...


@query
def lanes_of_worker(tx: Transaction, *, worker: str) -> list[LaneRow]: ...


@query
def lock_worker(tx: Transaction, *, worker: str) -> datetime | None:
    """Lock its row; returns until when it counted as alive, None if it is not registered."""
    ...


@change
def heartbeat(tx: Transaction, *, id: str, now: datetime, alive_until: datetime) -> int: ...


@change
def delete_worker(tx: Transaction, *, id: str) -> int: ...
