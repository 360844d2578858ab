"""What the jobs of the workers declare: one row for each name of a job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.step import Priority
from stepwell.store.statement import change, change_and_wake, query
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the steps of one action."""

    name: str
    alias_of: str | None
    queue: str | None
    priority: Priority
    max_retries: int
    timeout: float
    cooldown: float
    concurrency_key: str | None  # a template of the arguments
    key_function: str | None  # the name of the function that makes the key
    concurrency_limit: int
    weight: float
    max_running: int | None


class UnresolvedStep(msgspec.Struct, frozen=True):
    """A step with general defaults in the columns that it left out."""

    id: int
    action: str
    arguments: str
    queue: str
    priority: Priority
    max_retries: int
    timeout: float
    cooldown: float
    concurrency_key: str | None
    concurrency_limit: int
    left_out: str


class RecordedAction(Declaration, frozen=True, kw_only=True):
    recorded_at: datetime
    recorded_by: str


@query
def declared_actions(tx: Transaction, *, names: Sequence[str]) -> list[Declaration]: ...


@query
def all_actions(tx: Transaction) -> list[RecordedAction]: ...


@query
def aliases_of(tx: Transaction, *, actions: Sequence[str]) -> list[str]: ...


@change
def record_action(
    tx: Transaction,
    *,
    name: str,
    alias_of: str | None,
    queue: str | None,
    priority: str,
    max_retries: int,
    timeout: float,
    cooldown: float,
    concurrency_key: str | None,
    key_function: str | None,
    concurrency_limit: int,
    weight: float,
    max_running: int | None,
    now: datetime,
    by: str,
) -> int: ...


@change
def delete_alias(tx: Transaction, *, name: str) -> int: ...


@change
def add_unresolved(tx: Transaction, *, ids: Sequence[int], left_out: Sequence[str]) -> int: ...


@query
def declared_but_unresolved(tx: Transaction, *, known: Sequence[str]) -> list[str]: ...


@query
def unresolved_steps(tx: Transaction, *, names: Sequence[str], limit: int) -> list[UnresolvedStep]: ...


@query
def priority_of_parent(tx: Transaction, *, id: int) -> Priority | None: ...


@change
def write_late_settings(
    tx: Transaction,
    *,
    id: int,
    queue: str,
    priority: str,
    max_retries: int,
    timeout: float,
    cooldown: float,
    concurrency_key: str | None,
    concurrency_limit: int,
) -> int: ...


@change_and_wake(Wake.WORK)
def write_late_settings_to_agenda(tx: Transaction, *, id: int) -> int: ...


@change
def delete_unresolved(tx: Transaction, *, ids: Sequence[int]) -> int: ...
