"""The data that `explain` reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.model.step import Json
from stepwell.store.statement import query
from stepwell.store.transaction import Transaction


class StepFacts(msgspec.Struct, frozen=True):
    """What explanations need to know about a step: its row, its conditions (`step_readiness`) and its agenda entry."""

    id: int
    label: str | None
    action: str
    queue: str | None  # this and the settings below: None until a row of plain SQL is placed
    group: str | None
    workflow_id: str | None
    type: str
    block_uuid: str | None
    child_block_uuid: str | None
    parent_step_id: int | None
    index: int | None
    state: State
    reason: str | None
    placed: bool
    trigger_rule: str
    dispatch_after: datetime | None
    retries: int
    max_retries: int | None
    attempts: int
    not_completed: int
    own_code_done_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    hostname: str | None
    lease_worker: str | None
    lease_deadline: datetime | None
    lease_token: int
    error_message: str | None
    last_error: str | None
    concurrency_key: str | None
    concurrency_limit: int | None
    belongs_to: str | None
    status: str | None
    key_blocked: bool
    parent_ready: bool
    order_met: bool
    dependencies_met: bool
    retries_left: bool
    workflow_runs: bool
    kind: str
    decision: Json
    skippable: bool
    unsatisfiable: bool

    @property
    def name(self) -> str:
        return self.label or self.action

    @property
    def waits_for_children(self) -> bool:
        return self.state is State.RUNNING and self.own_code_done_at is not None


class Member(msgspec.Struct, frozen=True):
    """A step that has not concluded, in its block."""

    block_uuid: str
    type: str
    index: int
    step_id: int
    ended: bool


class StepBehind(msgspec.Struct, frozen=True):
    """`whole`: its end is waited for, so its children matter, too; otherwise only that its own code is done."""

    id: int
    whole: bool


class Edge(msgspec.Struct, frozen=True):
    step_id: int
    depends_on_id: int


class KeyHolder(msgspec.Struct, frozen=True):
    concurrency_key: str
    step_id: int


class LeaseBelow(msgspec.Struct, frozen=True):
    leased_id: int
    above_id: int


class ServedLane(msgspec.Struct, frozen=True):
    """A lane in one group, or in all (''): the live workers that serve it, together."""

    queue: str
    action: str
    group: str
    slots: int
    running: int
    has_free_slot: bool
    open: bool


class DispatchedCount(msgspec.Struct, frozen=True):
    """How many Dispatched steps take room in the queue from steps of the group."""

    queue: str
    group: str
    dispatched: int


class SlotCount(msgspec.Struct, frozen=True):
    queue: str
    group: str
    slots: int


class LeaseHolder(msgspec.Struct, frozen=True):
    id: str
    heartbeat_at: datetime
    alive_until: datetime


class WorkflowPause(msgspec.Struct, frozen=True):
    id: str
    paused_at: datetime
    paused_by: str
    paused_reason: str | None


@query
def steps_behind(tx: Transaction, *, ids: Sequence[int], fan: int, most: int) -> list[StepBehind]:
    """Steps and all steps that they may wait for, now or later, at any depth; at most `fan` of each kind behind one.

    A step may be there twice, once as a whole.
    """
    ...


@query
def unconcluded_of_workflow(tx: Transaction, *, workflow: str, most: int) -> list[int]:
    """The steps of a declared workflow that have not concluded."""
    ...


@query
def facts_of_steps(tx: Transaction, *, ids: Sequence[int]) -> list[StepFacts]: ...


@query
def unconcluded_in_blocks(tx: Transaction, *, blocks: Sequence[str], most: int) -> list[Member]: ...


@query
def dependencies_of_steps(tx: Transaction, *, ids: Sequence[int], most: int) -> list[Edge]: ...


@query
def holders_of_keys(tx: Transaction, *, keys: Sequence[str], most: int) -> list[KeyHolder]: ...


@query
def leases_below(tx: Transaction, *, ids: Sequence[int]) -> list[LeaseBelow]:
    """Steps that ended while their process still holds the lease, and which of the given steps are above."""
    ...


@query
def served_lanes(
    tx: Transaction, *, queues: Sequence[str], actions: Sequence[str], now: datetime
) -> list[ServedLane]: ...


@query
def dispatched_by_queue(tx: Transaction, *, queues: Sequence[str], groups: Sequence[str]) -> list[DispatchedCount]: ...


@query
def slots_by_queue(tx: Transaction, *, queues: Sequence[str], now: datetime) -> list[SlotCount]: ...


@query
def lease_holders(tx: Transaction, *, workers: Sequence[str]) -> list[LeaseHolder]: ...


@query
def paused_workflows(tx: Transaction, *, workflows: Sequence[str]) -> list[WorkflowPause]: ...


@query
def parents_to_decide_soon(tx: Transaction, *, ids: Sequence[int], now: datetime) -> list[int]:
    """Those of the parents that the next tick decides, or that one decides now."""
    ...


@query
def groups_to_decide(tx: Transaction, *, groups: Sequence[str], now: datetime) -> list[str]:
    """Those of the groups whose next tick has something to decide, or that are in a tick."""
    ...
