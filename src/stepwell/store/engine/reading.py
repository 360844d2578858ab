"""Reads for people: steps, history, trees, counts, workers, groups, ticks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from stepwell.model.states import State
from stepwell.model.step import Json, Step, Transition
from stepwell.store.list_sources import narrowed
from stepwell.store.rows import builder
from stepwell.store.statement import query
from stepwell.store.transaction import Transaction


class StatusCount(msgspec.Struct, frozen=True):
    status: str
    steps: int


class LaneCount(msgspec.Struct, frozen=True):
    queue: str
    action: str
    steps: int


class LiveWorker(msgspec.Struct, frozen=True):
    id: str
    hostname: str
    pid: int
    slots: int
    started_at: datetime
    heartbeat_at: datetime
    alive_until: datetime


class KnownWorker(LiveWorker, frozen=True):
    """Live, or dead with its row not deleted yet."""

    alive: bool
    running: int


class Lane(msgspec.Struct, frozen=True):
    worker_id: str
    queue: str
    action: str
    group: str
    place: int


class LogLine(msgspec.Struct, frozen=True):
    id: int
    attempt: int
    at: datetime
    level: str
    message: str


class TickRow(msgspec.Struct, frozen=True):
    id: int
    group: str
    owner: str
    started_at: datetime
    ended_at: datetime | None
    progress: Json
    steps_dispatched: int
    duration_ms: float | None
    error: str | None


class StepChange(msgspec.Struct, frozen=True):
    """One change of state, with what one needs to know about its step."""

    id: int
    step_id: int
    uuid: str
    workflow_id: str | None
    action: str
    label: str | None
    queue: str | None
    group: str | None
    from_state: State | None
    to_state: State
    reason: str | None
    actor: str | None
    at: datetime
    attempt: int


class SetAside(msgspec.Struct, frozen=True):
    id: int
    action: str
    reason: str
    error_message: str | None


class GroupRow(msgspec.Struct, frozen=True):
    group: str
    rotation: int | None
    lock_owner: str | None
    lock_token: int
    lock_deadline: datetime | None
    current_tick_id: int | None
    last_tick_completed: datetime | None
    last_selected_at: datetime | None


@query
def step_by_id(tx: Transaction, *, id: int) -> Step | None: ...


@query
def step_by_uuid(tx: Transaction, *, uuid: str) -> Step | None: ...


@query
def step_ids_between(tx: Transaction, *, first: str, last: str) -> list[int]: ...


@query
def is_live(
    tx: Transaction, *, relatable_type: str, relatable_id: str, any_action: bool, actions: Sequence[str]
) -> bool: ...


@query
def history(tx: Transaction, *, step_id: int) -> list[Transition]: ...


@query
def changes_after(tx: Transaction, *, after: int, limit: int) -> list[StepChange]: ...


@query
def newest_change(tx: Transaction) -> int: ...


@query
def histories(tx: Transaction, *, ids: Sequence[int]) -> list[Transition]:
    """The histories of many steps, one after another."""
    ...


@query
def tree_below(tx: Transaction, *, id: int) -> list[Step]:
    """A step and its descendants."""
    ...


@query
def steps_of_block(tx: Transaction, *, block: str | None) -> list[Step]: ...


@query
def dependencies_of(tx: Transaction, *, id: int) -> list[Step]: ...


@query
def agenda_by_status(tx: Transaction) -> list[StatusCount]: ...


@query
def live_workers(tx: Transaction, *, now: datetime) -> list[LiveWorker]: ...


@query
def all_workers(tx: Transaction, *, now: datetime) -> list[KnownWorker]: ...


@query
def lanes_of_workers(tx: Transaction) -> list[Lane]: ...


@query
def logs_of_step(tx: Transaction, *, step_id: int) -> list[LogLine]: ...


@query
def recent_ticks(tx: Transaction, *, before: int, limit: int) -> list[TickRow]: ...


@query
def recent_ticks_of_group(tx: Transaction, *, group: str, before: int, limit: int) -> list[TickRow]: ...


@query
def all_groups(tx: Transaction) -> list[GroupRow]: ...


@query
def unserved_lanes(tx: Transaction, *, now: datetime) -> list[LaneCount]:
    """Lanes with steps that could run now if a live worker served them."""
    ...


@query
def steps_set_aside(tx: Transaction, *, limit: int) -> list[SetAside]:
    """Steps that ended because of what their row holds, newest first."""
    ...


@query
def database_version(tx: Transaction) -> str: ...


def newest_steps(tx: Transaction, *, filters: dict[str, Any], before: int | None, limit: int) -> list[Step]:
    """The newest matching steps with an id below `before` (keyset pagination stays fast at any depth)."""
    conditions = narrowed(tx.dialect, filters)
    if before is not None:
        conditions.clauses.append(f"id < {conditions.placeholder('before', before)}")
    sql = f"SELECT * FROM steps WHERE {conditions} ORDER BY id DESC LIMIT {conditions.placeholder('limit', limit)}"
    found = tx.fetch(sql, conditions.parameters)
    if not found:
        return []
    build = builder(Step, tuple(found[0]))
    return [build(tuple(row.values())) for row in found]
