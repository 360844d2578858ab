"""How many steps may run at once: in total, per queue, per action."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.store.statement import change, change_and_wake, query
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


class LimitRow(msgspec.Struct, frozen=True):
    kind: str
    name: str
    maximum: int


class LockedLimit(msgspec.Struct, frozen=True):
    """A limit, and what the strategy that divides its slots keeps from claim to claim."""

    kind: str
    name: str
    maximum: int
    shares: str | None


class RunningCount(msgspec.Struct, frozen=True):
    queue: str
    action: str
    running: int


class Alias(msgspec.Struct, frozen=True):
    """A former name of an action."""

    name: str
    alias_of: str


class CodeLimit(msgspec.Struct, frozen=True):
    """The `max_running` of a job when a worker last started."""

    action: str
    maximum: int


@query
def limits(tx: Transaction) -> list[LimitRow]: ...


@query
def lock_limits(tx: Transaction) -> list[LockedLimit]:
    """The same with the memory of its shares; blocks every other claim until this transaction ends."""
    ...


@query
def running_by_lane(tx: Transaction) -> list[RunningCount]:
    """Leases per lane. A lease counts until its process has ended, even if its step has been cancelled."""
    ...


@change
def remember_shares(tx: Transaction, *, kind: str, name: str, shares: str) -> int:
    """In the transaction of the claim, which holds the lock."""
    ...


@change_and_wake(Wake.WORK)
def set_limit(tx: Transaction, *, kind: str, name: str, maximum: int) -> int: ...


@change_and_wake(Wake.WORK)
def delete_limit(tx: Transaction, *, kind: str, name: str) -> int: ...


@query
def code_limits(tx: Transaction) -> list[CodeLimit]: ...


@change
def record_code_limit(tx: Transaction, *, action: str, maximum: int, now: datetime) -> int: ...


@change
def delete_code_limit(tx: Transaction, *, action: str) -> int: ...


@query
def aliases(tx: Transaction) -> list[Alias]: ...
