"""The data that `explain` reads."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.store.statement import query
from stepwell.store.transaction import Transaction


class Readiness(msgspec.Struct, frozen=True):
    """The row of `step_readiness` of one step, and its agenda entry, if it has one."""

    parent_ready: bool
    order_met: bool
    dependencies_met: bool
    retries_left: bool
    workflow_runs: bool
    unsatisfiable: bool
    status: str | None
    key_blocked: bool


class Named(msgspec.Struct, frozen=True):
    """A step as explanations refer to it."""

    id: int
    label: str | None
    action: str
    state: State


class WorkflowPause(msgspec.Struct, frozen=True):
    paused_at: datetime
    paused_by: str
    paused_reason: str | None


class QueueRoom(msgspec.Struct, frozen=True):
    slots: int
    dispatched: int


@query
def readiness(tx: Transaction, *, id: int) -> Readiness | None: ...


@query
def lane_is_served(tx: Transaction, *, queue: str, action: str, group: str | None, now: datetime) -> int:
    """How many live workers serve the lane."""
    ...


@query
def can_begin(tx: Transaction, *, queue: str, action: str, group: str | None, now: datetime) -> bool | None:
    """Whether a live worker serves the lane and no limit of 0 closes it."""
    ...


@query
def queue_room(tx: Transaction, *, queue: str, group: str | None, now: datetime) -> QueueRoom: ...


@query
def unconcluded_before(tx: Transaction, *, block: str | None, type: str, index: int | None) -> list[Named]: ...


@query
def workflow_pause(tx: Transaction, *, workflow: str | None) -> WorkflowPause | None: ...


@query
def holders_of_key(tx: Transaction, *, key: str | None) -> list[Named]: ...


@query
def serves_other_groups(tx: Transaction, *, queue: str, action: str, now: datetime) -> bool | None:
    """Whether a live worker serves the lane in any group."""
    ...
