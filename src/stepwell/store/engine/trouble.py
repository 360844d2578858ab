"""Steps that Failed, were Stopped or Cancelled, or became NotRunnable: by cause, and what stands behind each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class CauseRow(msgspec.Struct, frozen=True):
    """Failures that are alike; `newest_step` is the one that failed last."""

    fingerprint: str
    action: str
    reason: str | None
    number: int
    behind: int  # steps that ended only because of these
    newest_step: int
    first_at: datetime
    last_at: datetime
    error: str | None


class CauseDelta(msgspec.Struct, frozen=True):
    """How the numbers of a cause have changed."""

    fingerprint: str
    number: int
    behind: int


class Cascaded(msgspec.Struct, frozen=True):
    """A step that a cascade ended, and the step before it in that cascade."""

    step_id: int
    fingerprint: str
    direct: int | None


class CauseOf(msgspec.Struct, frozen=True):
    """The step at the start of the cascade: None if it is its own, 0 if it has not been looked for yet.

    `fingerprint` is that of the cause; without one, its own.
    """

    step_id: int
    cause: int | None
    fingerprint: str


@query
def causes(tx: Transaction, *, limit: int) -> list[CauseRow]: ...


@query
def causes_since(tx: Transaction, *, since: datetime, limit: int) -> list[CauseRow]: ...


@query
def cause(tx: Transaction, *, fingerprint: str) -> CauseRow | None: ...


@query
def fingerprint_of(tx: Transaction, *, step_id: int) -> str | None: ...


@query
def count_causes(tx: Transaction, *, most: int) -> int:
    """How many causes there are, at most this many."""
    ...


@query
def unresolved(tx: Transaction, *, limit: int) -> list[Cascaded]: ...


@query
def causes_of(tx: Transaction, *, ids: Sequence[int]) -> list[CauseOf]: ...


@query
def has_unresolved(tx: Transaction) -> bool: ...


@change
def set_causes(tx: Transaction, *, rows: str) -> int:
    """`rows` is JSON: step, cause, the fingerprint of the cause."""
    ...


@query
def take_causes(tx: Transaction, *, limit: int) -> list[CauseDelta]:
    """Delete changes that are not added yet, at most this many, and return them."""
    ...


@change
def add_to_causes(tx: Transaction, *, rows: str) -> int:
    """`rows` is JSON: fingerprint, number, behind."""
    ...


@change
def delete_zero_causes(tx: Transaction) -> int: ...


@change
def empty_causes_tally(tx: Transaction) -> int: ...


@change
def empty_causes(tx: Transaction) -> int: ...


@change
def count_causes_again(tx: Transaction) -> int: ...
