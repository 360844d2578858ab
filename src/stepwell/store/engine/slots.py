"""Deciding slots: what is due, the executions that are created, and the ledger.

Many rows are one parameter, a JSON array of arrays: see `rows_of`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stepwell.store.engine.schedules import CronRow
from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class Survey(msgspec.Struct, frozen=True):
    """What a scheduler has to do now, and the next moments at which there will be something."""

    due: bool
    edited: bool
    ahead: bool
    overdue: bool
    late: bool
    next_slot: datetime | None
    next_expected: datetime | None
    next_late: datetime | None

    @property
    def has_work(self) -> bool:
        return self.due or self.edited or self.ahead or self.overdue or self.late

    @property
    def next_moment(self) -> datetime | None:
        return min(filter(None, (self.next_slot, self.next_expected, self.next_late)), default=None)


class LiveExecution(msgspec.Struct, frozen=True):
    job_id: int
    execution_id: int


class CreatedExecution(msgspec.Struct, frozen=True):
    id: int
    job_id: int
    scheduled_time: datetime


class DecidedSlot(msgspec.Struct, frozen=True):
    job_id: int
    slot: datetime


class SlotRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the ledger: a slot, or a gap from `slot` to `until_slot`."""

    id: int
    job_id: int
    slot: datetime
    until_slot: datetime
    outcome: str
    reason: str | None
    detail: str | None
    execution_id: int | None
    expression: str | None
    zone: str | None
    decided_at: datetime


def rows_of(tx: Transaction, rows: Iterable[Sequence[Any]]) -> str:
    """Many rows as one parameter."""
    return msgspec.json.encode(
        [[tx.timestamp(value) if isinstance(value, datetime) else value for value in row] for row in rows]
    ).decode()


@query
def survey(tx: Transaction, *, now: datetime, ahead: datetime) -> Survey:
    """`ahead` is the moment after which a last slot means that the clock went back."""
    ...


@query
def lock_due(tx: Transaction, *, now: datetime, excluded: Collection[int], limit: int) -> list[CronRow]: ...


@query
def lock_ahead(tx: Transaction, *, ahead: datetime, limit: int) -> list[CronRow]:
    """The clock went back: slots that lie ahead have been decided."""
    ...


@query
def lock_overdue(tx: Transaction, *, now: datetime, excluded: Collection[int], limit: int) -> list[CronRow]: ...


@query
def expecting(tx: Transaction) -> list[CronRow]:
    """The crons with `expect_within` that are enabled."""
    ...


@query
def live_executions(tx: Transaction, *, ids: Collection[int], keys: Collection[str]) -> list[LiveExecution]:
    """What keeps the next slot of a cron without overlap from running."""
    ...


@query
def insert_executions(tx: Transaction, *, rows: str, now: datetime) -> list[CreatedExecution]:
    """Those that did not exist yet."""
    ...


@query
def execution_at(tx: Transaction, *, job_id: int, scheduled_time: datetime) -> int | None: ...


@change
def link_executions(tx: Transaction, *, rows: str) -> int: ...


@query
def newest_time_without_slot(tx: Transaction, *, job_id: int) -> datetime | None: ...


@change
def insert_slots(tx: Transaction, *, rows: str, now: datetime) -> int: ...


@change
def advance(tx: Transaction, *, rows: str) -> int:
    """Store the last and the next slot, if neither the definition nor the last slot has changed."""
    ...


@change
def expect(tx: Transaction, *, id: int, alarmed_slot: datetime | None, expect_at: datetime | None) -> int: ...


@change
def withdraw_skipped(tx: Transaction, *, job_id: int, now: datetime) -> int: ...


@query
def gap_around(tx: Transaction, *, job_id: int, now: datetime) -> SlotRow | None: ...


@query
def decided_ahead(tx: Transaction, *, ids: Collection[int]) -> list[DecidedSlot]:
    """Slots after the last one: they were decided before the clock went back."""
    ...


@change
def shorten_gap(tx: Transaction, *, id: int, until_slot: datetime) -> int: ...


@query
def slots_between(tx: Transaction, *, job_id: int, first: datetime, last: datetime, limit: int) -> list[SlotRow]: ...


@query
def newest_slots(tx: Transaction, *, job_id: int, limit: int) -> list[SlotRow]: ...


@query
def slot_row(tx: Transaction, *, job_id: int, slot: datetime) -> SlotRow | None:
    """The row that covers a slot: its own, or that of a gap."""
    ...
