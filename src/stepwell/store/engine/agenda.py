"""Steps enter and leave the agenda."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stepwell.store.statement import change, change_and_wake, query
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


@change_and_wake(Wake.WORK)
def open_ready(tx: Transaction, *, ids: Sequence[int], now: datetime) -> int:
    """Put those of these steps on the agenda that nothing keeps from running."""
    ...


@query
def steps_waiting_for(tx: Transaction, *, ids: Sequence[int]) -> list[int]:
    """Steps whose last condition may have been the end of these (or of their own code)."""
    ...


@query
def steps_to_check(tx: Transaction, *, group: str) -> list[int]:
    """Steps whose last condition may have been met by what is marked."""
    ...


@change_and_wake(Wake.WORK)
def open_unchecked(tx: Transaction, *, group: str, now: datetime) -> int: ...


@change
def close_unchecked(tx: Transaction, *, group: str) -> int:
    """They wait behind others, whose end will bring them back."""
    ...


@change_and_wake(Wake.WORK)
def open_due(tx: Transaction, *, group: str, now: datetime) -> int: ...
