"""The counters: how many steps there are, by state and by what they are about."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.store.statement import query
from stepwell.store.transaction import Transaction


class Counter(msgspec.Struct, frozen=True):
    """Steps that are alike. `group`: of unfinished ones; `host`: of Running ones; `throttled`: of Pending ones."""

    state: State
    action: str
    queue: str
    group: str
    host: str
    child: bool
    throttled: bool
    steps: int


@query
def counted_rows(tx: Transaction) -> list[Counter]:
    """What the counters must say: a count over all rows of `steps`."""
    ...


@query
def counters(tx: Transaction) -> list[Counter]: ...


@query
def oldest_ready(tx: Transaction, *, now: datetime) -> datetime | None: ...
