"""The circuit breaker."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class BreakerRow(msgspec.Struct, frozen=True):
    value: str
    changed_by: str | None
    reason: str | None
    changed_at: datetime
    planned_end: datetime | None

    @property
    def is_on(self) -> bool:
        return self.value == "true"


class InFlight(msgspec.Struct, frozen=True):
    group: str | None
    status: str
    steps: int


@query
def breaker_state(tx: Transaction) -> BreakerRow | None:
    """A missing row counts as off."""
    ...


@query
def breaker_for_dispatch(tx: Transaction) -> str | None:
    """The same, locked until the transaction ends: a pause waits for this dispatch to commit."""
    ...


@change
def set_breaker(
    tx: Transaction, *, value: str, actor: str, reason: str | None, now: datetime, planned_end: datetime | None
) -> int: ...


@query
def in_flight(tx: Transaction) -> list[InFlight]:
    """What must end before a restart is safe: dispatched steps and running leases."""
    ...
