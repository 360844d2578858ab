"""The counters: how many steps there are, by state and by what they are about (docs/decisions/0012-counters.md)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class Counter(msgspec.Struct, frozen=True):
    """Steps that are alike. `group`: of queued ones; `hostname`: of Running ones; `throttled`: of Pending ones."""

    state: State
    action: str
    queue: str
    group: str
    hostname: str
    child: bool
    throttled: bool
    number: int


class Times(msgspec.Struct, frozen=True):
    """Waits and runs of an action within a minute, in seconds, with commas between them."""

    minute: datetime
    action: str
    waits: str | None
    runs: str | None


class MinuteRow(msgspec.Struct, frozen=True):
    """What happened within a minute: kind, bucket and number of steps, with a space between them and a comma after.

    Waits and runs are in seconds, with commas between them.
    """

    minute: datetime
    numbers: str | None  # None: a row that has only waits or runs
    waits: str | None
    runs: str | None


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


class RunningCount(msgspec.Struct, frozen=True):
    group: str | None
    steps: int


@query
def running_by_group(tx: Transaction) -> list[RunningCount]: ...


@query
def tally_length(tx: Transaction, *, most: int) -> int: ...


@query
def tally_through(tx: Transaction, *, limit: int) -> int | None:
    """Up to which row `take_tally` may go; None: there is nothing to fold."""
    ...


@query
def take_tally(tx: Transaction, *, through: int) -> list[Times]:
    """Fold at most this many rows of the tally into the totals and the minutes; returns their waits and runs."""
    ...


@query
def minutes_since(tx: Transaction, *, since: datetime, action: str | None) -> list[MinuteRow]: ...


@change
def delete_zero_totals(tx: Transaction) -> int: ...


@change
def add_to_minutes(tx: Transaction, *, rows: str) -> int:
    """`rows` is JSON: minute, action, kind, bucket, number."""
    ...


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


@change
def tally_ended(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def tally_waits(tx: Transaction, *, ids: Sequence[int], now: datetime) -> int: ...
