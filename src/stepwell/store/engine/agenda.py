"""Adding steps to the agenda and removing them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stepwell.store.statement import change, change_and_wake, query
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


@change_and_wake(Wake.WORK)
def open_ready(tx: Transaction, *, ids: Sequence[int], now: datetime) -> int:
    """Put those of these steps on the agenda that are ready."""
    ...


@query
def steps_waiting_for(tx: Transaction, *, ids: Sequence[int]) -> list[int]:
    """Steps whose last unmet condition may have been the end of these steps (or of their own code)."""
    ...


@query
def steps_to_check(tx: Transaction, *, group: str) -> list[int]:
    """Steps whose last unmet condition may be met by the marked changes."""
    ...


@change_and_wake(Wake.WORK)
def open_returned(tx: Transaction, *, ids: Sequence[int], now: datetime) -> int:
    """Open those of these steps, just returned to Pending, that wait for no other step."""
    ...


@change_and_wake(Wake.WORK)
def open_unchecked(tx: Transaction, *, group: str, now: datetime) -> int: ...


@change
def close_unchecked(tx: Transaction, *, group: str) -> int:
    """Remove unchecked steps that wait for others; they are put on the agenda again when those end."""
    ...


@change_and_wake(Wake.WORK)
def open_due(tx: Transaction, *, group: str, now: datetime) -> int: ...
