"""Adopting rows that were inserted with plain SQL."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.model import codec
from stepwell.model.states import State
from stepwell.model.step import Priority, StepType
from stepwell.store.changes import Change
from stepwell.store.statement import change, query, transition_in_tick
from stepwell.store.transaction import Transaction


class NewRow(msgspec.Struct, frozen=True):
    """A step as plain SQL inserted it; `arguments` is the JSON text."""

    id: int
    uuid: str
    action: str
    arguments: str
    label: str | None
    type: StepType
    parent_step_id: int | None
    block_uuid: str | None
    child_block_uuid: str | None
    index: int | None
    workflow_id: str | None
    group: str | None
    queue: str | None
    priority: Priority | None
    max_retries: int | None
    timeout: float | None
    cooldown: float | None
    concurrency_key: str | None
    concurrency_limit: int | None
    relatable_type: str | None
    relatable_id: str | None
    idempotency_key: str | None


class NewParent(msgspec.Struct, frozen=True):
    id: int
    state: State


@query
def new_steps(tx: Transaction, *, limit: int) -> list[NewRow]: ...


@query
def new_ids(tx: Transaction, *, limit: int) -> list[int]: ...


@query
def text_as_bytes(tx: Transaction, *, id: int) -> str | None:
    """The texts of a row in hexadecimal digits, as a JSON object by column."""
    ...


def not_utf8(tx: Transaction, id: int, columns: list[str]) -> list[str]:
    """Which of these columns hold bytes that are no text (on SQLite, which stores any bytes as text)."""
    stored = codec.decode(text_as_bytes(tx, id=id)) or {}
    return [name for name in columns if not _is_utf8(bytes.fromhex(stored.get(name) or ""))]


def _is_utf8(stored: bytes) -> bool:
    try:
        stored.decode()
    except UnicodeDecodeError:
        return False
    return True


@query
def new_step(tx: Transaction, *, id: int) -> NewRow | None: ...


@query
def new_parent(tx: Transaction, *, parent: int | None, block: str | None, uuid: str) -> NewParent | None:
    """The parent that a row refers to, if it is not placed yet, or the unplaced step whose UUID names its block."""
    ...


@change
def place_step(
    tx: Transaction,
    *,
    id: int,
    workflow_id: str,
    parent_step_id: int | None,
    block_uuid: str,
    index: int,
    group: str,
    queue: str,
    priority: str,
    max_retries: int,
    timeout: float,
    cooldown: float,
    concurrency_key: str | None,
    concurrency_limit: int,
    shares_block: bool,
    belongs_to: str | None,
) -> int: ...


@change
def delete_new_entry(tx: Transaction, *, id: int) -> int: ...


@transition_in_tick
def make_dormant(tx: Transaction, *, id: int, actor: str, now: datetime) -> list[Change]:
    """Make an exception handler NotRunnable that plain SQL inserted as Pending."""
    ...


@transition_in_tick
def refuse_step(tx: Transaction, *, id: int, actor: str, message: str, now: datetime) -> list[Change]: ...
