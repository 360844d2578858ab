"""What related steps ended with, for the code of a running one."""

from __future__ import annotations

import msgspec

from stepwell.model.states import State
from stepwell.store.statement import query
from stepwell.store.transaction import Transaction


class RelatedStep(msgspec.Struct, frozen=True):
    id: int
    uuid: str
    action: str
    label: str | None
    index: int
    type: str
    state: State
    reason: str | None
    error_message: str | None
    response: str | None  # JSON


@query
def steps_before(tx: Transaction, *, id: int) -> list[RelatedStep]:
    """Dependencies and earlier steps of the block; for an exception handler, the default steps of its block."""
    ...


@query
def steps_below(tx: Transaction, *, id: int) -> list[RelatedStep]:
    """Children."""
    ...
