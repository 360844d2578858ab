"""Executions of cron jobs: their status follows their steps and workflows."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Literal

import msgspec

from stepwell.store.changes import Change
from stepwell.store.statement import change, query, transition
from stepwell.store.transaction import Transaction


class Followed(msgspec.Struct, frozen=True):
    """An execution whose step or workflow changed."""

    id: int
    job_id: int
    slot: datetime | None
    status: str
    started_at: datetime | None
    error_message: str | None


class ExecutionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `job_executions`."""

    id: int
    job_id: int
    scheduled_time: datetime
    status: str
    started_at: datetime | None
    finished_at: datetime | None
    retry_count: int
    error_message: str | None
    result: str | None
    created_at: datetime
    kind: str
    slot: datetime | None
    revision: int
    requested_by: str | None
    reason: str | None
    start_by: datetime | None
    step_id: int | None
    workflow_id: str | None


class LateExecution(msgspec.Struct, frozen=True):
    id: int
    step_id: int
    start_by: datetime


class SlotExecution(msgspec.Struct, frozen=True):
    id: int
    slot: datetime
    kind: str
    status: str


class ExecutionOfStep(msgspec.Struct, frozen=True):
    """The schedule of a running step."""

    id: int
    job_id: int
    name: str
    kind: Literal["slot", "manual", "backfill"]
    slot: datetime | None
    scheduled_time: datetime
    last_success: datetime | None


@query
def follow_steps(tx: Transaction, *, ids: Collection[int]) -> list[Followed]: ...


@query
def follow_workflows(tx: Transaction, *, ids: Collection[str]) -> list[Followed]: ...


@change
def record_success(tx: Transaction, *, job_id: int, slot: datetime) -> int: ...


@change
def slot_was_skipped(tx: Transaction, *, execution_id: int, reason: str, detail: str | None) -> int: ...


@query
def late_executions(tx: Transaction, *, now: datetime, limit: int) -> list[LateExecution]: ...


@transition
def skip_late(tx: Transaction, *, id: int, actor: str, reason: str, now: datetime) -> list[Change]:
    """Skip a step that has not begun."""
    ...


@query
def execution(tx: Transaction, *, id: int) -> ExecutionRow | None: ...


@query
def newest_executions(
    tx: Transaction, *, job_id: int, status: str | None, before: int, limit: int
) -> list[ExecutionRow]: ...


@query
def live_executions_of(tx: Transaction, *, job_id: int) -> list[ExecutionRow]: ...


@query
def executions_of_slots(tx: Transaction, *, job_id: int, first: datetime, last: datetime) -> list[SlotExecution]: ...


@query
def execution_of_step(tx: Transaction, *, step_id: int, workflow_id: str) -> ExecutionOfStep | None: ...


@query
def success_before(tx: Transaction, *, job_id: int, slot: datetime) -> datetime | None: ...
