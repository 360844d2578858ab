"""Steps that Failed, were Stopped or Cancelled, or became NotRunnable: by cause, and what stands behind each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class CauseRow(msgspec.Struct, frozen=True):
    """Failures that are alike."""

    fingerprint: str
    action: str
    reason: str | None
    number: int
    newest_step: int
    first_at: datetime
    last_at: datetime
    error: str | None


class Behind(msgspec.Struct, frozen=True):
    fingerprint: str
    number: int


class Cascaded(msgspec.Struct, frozen=True):
    """A step that a cascade ended, and the step before it in that cascade."""

    step_id: int
    direct: int | None


class CauseOf(msgspec.Struct, frozen=True):
    """The step at the start of the cascade: None if it is its own, 0 if it has not been looked for yet."""

    step_id: int
    cause: int | None


@query
def causes(tx: Transaction, *, since: datetime | None, limit: int) -> list[CauseRow]: ...


@query
def cause(tx: Transaction, *, fingerprint: str) -> CauseRow | None: ...


@query
def fingerprint_of(tx: Transaction, *, step_id: int) -> str | None: ...


@query
def behind(tx: Transaction) -> list[Behind]: ...


@query
def unresolved(tx: Transaction, *, limit: int) -> list[Cascaded]: ...


@query
def causes_of(tx: Transaction, *, ids: Sequence[int]) -> list[CauseOf]: ...


@query
def has_unresolved(tx: Transaction) -> bool: ...


@change
def set_causes(tx: Transaction, *, rows: str) -> int:
    """`rows` is JSON: step, cause."""
    ...
