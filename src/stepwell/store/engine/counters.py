"""The counters: how many steps there are, by state and by what they are about (docs/decisions/0012-counters.md)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from stepwell.model.states import State
from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class Counter(msgspec.Struct, frozen=True):
    """Steps that are alike. `group`: of unfinished ones; `hostname`: of Running ones; `throttled`: of Pending ones."""

    state: State
    action: str
    queue: str
    group: str
    hostname: str
    child: bool
    throttled: bool
    number: int


class TallyRow(msgspec.Struct, frozen=True):
    """Alike steps that a statement moved from one state to another; without `at`, only to another counter.

    `waits` are the moments since when each could have begun (SQLite) or seconds (PostgreSQL), `runs` are seconds.
    """

    from_state: str | None
    to_state: str | None
    action: str
    queue: str | None
    group: str | None
    hostname: str | None
    child: bool
    is_throttled: bool
    at: datetime | None
    number: int
    waits: Any
    runs: Any


class MinuteRow(msgspec.Struct, frozen=True):
    """Steps of an action to which something happened within a minute."""

    minute: datetime
    action: str
    kind: str
    bucket: int
    number: int


@query
def counted_rows(tx: Transaction) -> list[Counter]:
    """What the counters must say: a count over all rows of `steps`."""
    ...


@query
def counters(tx: Transaction) -> list[Counter]:
    """Every counter that is not zero, exact at this moment."""
    ...


@query
def oldest_ready(tx: Transaction) -> datetime | None: ...


@query
def has_tally(tx: Transaction) -> bool: ...


@query
def take_tally(tx: Transaction, *, limit: int) -> list[TallyRow]: ...


@query
def tally_with_times(tx: Transaction) -> list[TallyRow]: ...


@query
def minutes_since(tx: Transaction, *, since: datetime) -> list[MinuteRow]: ...


@change
def add_to_totals(tx: Transaction, *, rows: Sequence[Sequence[Any]]) -> int: ...


@change
def delete_zero_totals(tx: Transaction) -> int: ...


@change
def add_to_minutes(tx: Transaction, *, rows: Sequence[Sequence[Any]]) -> int: ...


@change
def delete_minutes(tx: Transaction, *, before: datetime) -> int: ...


@change
def empty_tally(tx: Transaction) -> int: ...


@change
def empty_totals(tx: Transaction) -> int: ...


@change
def count_again(tx: Transaction) -> int: ...


@change
def empty_trouble(tx: Transaction) -> int: ...


@change
def list_trouble_again(tx: Transaction) -> int: ...
