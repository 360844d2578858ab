"""Cron jobs: their definitions, the history of those, what code declares, and when schedulers ran."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import msgspec

from stepwell.store.statement import change, change_and_wake, query
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


class CronRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `cron_jobs`."""

    id: int
    name: str
    description: str | None
    cron_expression: str
    handler_name: str
    handler_params: str | None
    is_enabled: bool
    max_retry: int
    timeout_seconds: int
    target: str
    zone: str
    misfire: str
    misfire_limit: int
    start_deadline: float | None
    allow_overlap: bool
    jitter: float
    expect_within: float | None
    created_at: datetime
    updated_at: datetime
    app: str | None
    declared: str | None
    overrides: str
    disabled_by: str | None
    disabled_at: datetime | None
    disabled_reason: str | None
    hash_seed: str | None
    revision: int
    recorded: str | None
    edited_at: datetime | None
    last_slot: datetime | None
    next_slot: datetime | None
    last_success: datetime | None
    ledger_from: datetime | None
    expected_from: datetime | None
    alarmed_slot: datetime | None
    expect_at: datetime | None


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a definition: who, when, why, and the definition before and after it (JSON)."""

    id: int
    job_id: int
    name: str
    kind: str
    actor: str
    reason: str | None
    changed_at: datetime
    revision: int
    before: str | None
    after: str | None


class CodeRow(msgspec.Struct, frozen=True):
    content_hash: str
    seen_at: datetime


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """An uninterrupted run of one scheduler."""

    id: int
    name: str
    ran_from: datetime
    ran_until: datetime


@query
def insert_cron(
    tx: Transaction,
    *,
    name: str,
    description: str | None,
    expression: str,
    handler: str,
    params: str | None,
    enabled: int,
    max_retry: int,
    timeout_seconds: int,
    target: str,
    zone: str,
    misfire: str,
    misfire_limit: int,
    start_deadline: float | None,
    allow_overlap: int,
    jitter: float,
    expect_within: float | None,
    app: str | None,
    declared: str | None,
    overrides: str,
    disabled_by: str | None,
    disabled_at: datetime | None,
    disabled_reason: str | None,
    hash_seed: str,
    recorded: str,
    last_slot: datetime,
    next_slot: datetime | None,
    expect_at: datetime | None,
    now: datetime,
) -> int | None:
    """The id of the new cron; None if the name is taken."""
    ...


@change_and_wake(Wake.SCHEDULES)
def write_definition(
    tx: Transaction,
    *,
    id: int,
    revision: int,
    description: str | None,
    expression: str,
    handler: str,
    params: str | None,
    enabled: int,
    max_retry: int,
    timeout_seconds: int,
    target: str,
    zone: str,
    misfire: str,
    misfire_limit: int,
    start_deadline: float | None,
    allow_overlap: int,
    jitter: float,
    expect_within: float | None,
    app: str | None,
    declared: str | None,
    overrides: str,
    disabled_by: str | None,
    disabled_at: datetime | None,
    disabled_reason: str | None,
    hash_seed: str | None,
    recorded: str,
    last_slot: datetime | None,
    next_slot: datetime | None,
    ledger_from: datetime | None,
    expected_from: datetime | None,
    expect_at: datetime | None,
    now: datetime,
) -> int: ...


@change
def delete_cron(tx: Transaction, *, id: int) -> int: ...


@query
def cron_by_name(tx: Transaction, *, name: str) -> CronRow | None: ...


@query
def cron_by_id(tx: Transaction, *, id: int) -> CronRow | None: ...


@query
def all_crons(tx: Transaction, *, after: int, limit: int) -> list[CronRow]: ...


@query
def cron_names(tx: Transaction) -> list[str]: ...


@query
def crons_of_app(tx: Transaction, *, app: str) -> list[CronRow]: ...


@query
def lock_cron(tx: Transaction, *, id: int) -> CronRow | None: ...


@query
def lock_edited(tx: Transaction, *, excluded: Collection[int], limit: int) -> list[CronRow]:
    """Rows that plain SQL inserted or changed."""
    ...


@query
def known_handlers(tx: Transaction, *, names: Collection[str]) -> list[str]:
    """Which of these are actions that a worker has recorded."""
    ...


@query
def all_handlers(tx: Transaction) -> list[str]: ...


@query
def known_workflow(tx: Transaction, *, namespace: str, name: str) -> str | None: ...


@change_and_wake(Wake.SCHEDULES)
def record_change(
    tx: Transaction,
    *,
    job_id: int,
    name: str,
    kind: str,
    actor: str,
    reason: str | None,
    revision: int,
    before: str | None,
    after: str | None,
    at: datetime,
) -> int: ...


@query
def changes_of(tx: Transaction, *, job_id: int) -> list[ChangeRow]: ...


@query
def changes_named(tx: Transaction, *, name: str) -> list[ChangeRow]:
    """Also of crons that were deleted."""
    ...


@change
def add_code(tx: Transaction, *, app: str, content_hash: str, now: datetime) -> int: ...


@query
def newest_code(tx: Transaction, *, app: str) -> CodeRow | None: ...


@query
def is_known_code(tx: Transaction, *, app: str, content_hash: str) -> CodeRow | None: ...


@change
def forget_code(tx: Transaction, *, app: str, content_hash: str) -> int: ...


@query
def begin_presence(tx: Transaction, *, name: str, now: datetime) -> int: ...


@change
def extend_presence(tx: Transaction, *, id: int, now: datetime) -> int: ...


@query
def presence(tx: Transaction, *, first: datetime, last: datetime) -> list[Presence]:
    """The runs of schedulers that touch a period, and the nearest ones before and after it."""
    ...


@change
def forget_presence(tx: Transaction, *, before: datetime) -> int: ...
