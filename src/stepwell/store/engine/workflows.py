"""Declared workflows: starting and settling them, decisions about their steps, gates, and what their steps take."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.model.step import Json
from stepwell.store.changes import Change
from stepwell.store.statement import change, change_and_wake, query, transition_in_tick
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


class WorkflowRow(msgspec.Struct, frozen=True):
    """A declared workflow, as stored."""

    id: str
    namespace: str
    name: str
    version: str
    content_hash: str
    state: str
    reason: str | None
    actor: str | None
    context: Json
    initiator: str | None
    source_system: str | None
    request_reason: str | None
    tags: Json
    bypass_steps: Json
    identity: str | None
    rerun_of: str | None
    cancelled_at: datetime | None
    settled_at: datetime | None
    created_at: datetime
    updated_at: datetime


class ListedWorkflow(msgspec.Struct, frozen=True):
    """A workflow as a list shows it."""

    id: str
    namespace: str
    name: str
    version: str
    state: str
    initiator: str | None
    created_at: datetime
    execution_status: str
    total: int
    completed: int
    skipped: int


class WorkflowTransition(msgspec.Struct, frozen=True):
    """One row of a workflow's history."""

    id: int
    workflow_id: str
    from_state: str | None
    to_state: str
    reason: str | None
    actor: str | None
    at: datetime


class Execution(msgspec.Struct, frozen=True):
    """A workflow in numbers: its steps by state, and what it waits for."""

    workflow_id: str
    namespace: str
    name: str
    version: str
    state: str
    total: int
    pending: int
    dispatched: int
    running: int
    completed: int
    skipped: int
    failed: int
    stopped: int
    cancelled: int
    not_runnable: int
    eligible: int
    blocked: int
    open_gates: int
    gates: str | None  # the names of the open ones
    next_change_at: datetime | None  # the earliest moment at which anything changes by itself
    execution_status: str

    @property
    def waits_for_gates(self) -> list[str]:
        """The names of the open gates."""
        return sorted(self.gates.split(", ")) if self.gates else []


class TemplateStep(msgspec.Struct, frozen=True):
    """A step of a workflow, by its name in the template."""

    id: int
    uuid: str
    template: str
    kind: str
    state: State


class LockedWorkflow(msgspec.Struct, frozen=True):
    id: str
    namespace: str
    name: str
    version: str
    state: str


class Settled(msgspec.Struct, frozen=True):
    id: str
    state: str
    reason: str | None
    updated_at: datetime


class UndecidedStep(msgspec.Struct, frozen=True):
    id: int
    workflow_id: str
    template: str
    kind: str
    plan: str
    undecided: str | None
    trigger_rule: str
    decision: Json


class WaitingDependent(msgspec.Struct, frozen=True):
    id: int
    plan: str
    upstream: str


class DueGate(msgspec.Struct, frozen=True):
    """A gate that has expired, or that plain SQL has answered."""

    id: int
    workflow_id: str
    template: str
    plan: str
    decision: Json
    answer: str | None
    answered_by: str | None
    reason: str | None
    answered_at: datetime | None


class LockedGate(msgspec.Struct, frozen=True):
    id: int
    uuid: str
    label: str | None
    template: str | None
    state: State
    actor: str | None
    completed_at: datetime | None
    kind: str
    plan: str | None
    decision: Json
    workflow_id: str
    status: str | None


class Answer(msgspec.Struct, frozen=True):
    answer: Json
    answered_by: str
    reason: str | None
    answered_at: datetime


class UpstreamStep(msgspec.Struct, frozen=True):
    """A dependency of `step_id`; its response is JSON text."""

    step_id: int
    id: int
    template: str | None
    kind: str
    state: State
    reason: str | None
    response: str | None
    error_message: str | None
    child_block_uuid: str | None


class Failure(msgspec.Struct, frozen=True):
    """A step that ended without having concluded."""

    id: int
    label: str | None
    action: str
    state: State
    reason: str | None
    error_message: str | None


class Element(msgspec.Struct, frozen=True):
    """An element of a map; its response is JSON text."""

    block_uuid: str
    element: int
    state: State
    reason: str | None
    response: str | None
    error_message: str | None


class Plan(msgspec.Struct, frozen=True):
    id: int
    plan: str | None


class PlannedRow(msgspec.Struct, frozen=True):
    """A step of a template, or an element of a map; what user code gave is JSON text."""

    id: int
    template: str
    element: int | None
    kind: str
    plan: str | None
    state: State
    arguments: str
    response: str | None


class LiveStep(msgspec.Struct, frozen=True):
    """An unfinished step; `planned_id` is the step whose plan says what it takes."""

    id: int
    workflow_id: str
    template: str
    element: int | None
    action: str
    arguments: str
    planned_id: int


class Context(msgspec.Struct, frozen=True):
    id: str
    context: str | None


@change
def insert_workflow(
    tx: Transaction,
    *,
    id: str,
    namespace: str,
    name: str,
    version: str,
    content_hash: str,
    state: str,
    actor: str | None,
    context: str,
    initiator: str | None,
    source_system: str | None,
    request_reason: str | None,
    tags: str,
    bypass_steps: str,
    identity: str | None,
    rerun_of: str | None,
    now: datetime,
) -> int: ...


@query
def workflow_with_identity(tx: Transaction, *, identity: str) -> str | None: ...


@query
def workflow(tx: Transaction, *, id: str) -> WorkflowRow | None: ...


@query
def newest_workflows(tx: Transaction, *, state: str | None, name: str | None, limit: int) -> list[ListedWorkflow]: ...


@query
def workflow_ids_like(tx: Transaction, *, beginning: str) -> list[str]: ...


@query
def workflow_transitions(tx: Transaction, *, id: str) -> list[WorkflowTransition]: ...


@query
def execution(tx: Transaction, *, ids: Sequence[str]) -> list[Execution]: ...


@query
def template_steps(tx: Transaction, *, id: str) -> list[TemplateStep]: ...


@change
def record_template(
    tx: Transaction, *, namespace: str, name: str, version: str, content_hash: str, definition: str, now: datetime
) -> int: ...


@change
def replace_template(
    tx: Transaction, *, namespace: str, name: str, version: str, content_hash: str, definition: str, now: datetime
) -> int: ...


@query
def recorded_template(tx: Transaction, *, namespace: str, name: str, version: str) -> str | None:
    """The content hash under which this version was registered."""
    ...


# The finalizer ----------------------------------------------------------------------------------------


@query
def lock_workflows(tx: Transaction, *, ids: Sequence[str]) -> list[LockedWorkflow]: ...


@query
def settle(tx: Transaction, *, ids: Sequence[str], actor: str | None, now: datetime) -> list[Settled]:
    """Set the state that follows from the steps; returns the workflows whose state changed."""
    ...


@change
def forget_cancellation(tx: Transaction, *, ids: Sequence[str]) -> int: ...


@query
def lock_for_new_steps(tx: Transaction, *, id: str) -> str | None: ...


# Decisions --------------------------------------------------------------------------------------------


@query
def undecided_steps(tx: Transaction, *, group: str, limit: int) -> list[UndecidedStep]: ...


@change
def withdraw_undecided(tx: Transaction, *, group: str) -> int: ...


@transition_in_tick
def skip_undecided(
    tx: Transaction, *, id: int, reason: str, message: str | None, decision: str, actor: str, now: datetime
) -> list[Change]: ...


@change
def record_decision(tx: Transaction, *, id: int, decision: str | None, dispatch_after: datetime | None) -> int: ...


@change_and_wake(Wake.WORK)
def open_decided(tx: Transaction, *, id: int, due_at: datetime | None) -> int: ...


# Gates ------------------------------------------------------------------------------------------------


@change
def open_gate(tx: Transaction, *, id: int, due_at: datetime | None) -> int: ...


@query
def due_gates(tx: Transaction, *, group: str, now: datetime) -> list[DueGate]: ...


@query
def lock_gate(tx: Transaction, *, id: int) -> LockedGate | None: ...


@query
def answer_of(tx: Transaction, *, id: int) -> Answer | None: ...


@change
def add_answer(
    tx: Transaction, *, id: int, answer: str, answered_by: str, reason: str | None, now: datetime
) -> int: ...


@change
def delete_answer(tx: Transaction, *, id: int) -> int: ...


@change
def postpone_gate(tx: Transaction, *, id: int, due_at: datetime | None) -> int: ...


@change
def record_refusal(tx: Transaction, *, id: int, decision: str) -> int: ...


@transition_in_tick
def expire_gate(tx: Transaction, *, id: int, message: str, actor: str, now: datetime) -> list[Change]: ...


# What the steps take ----------------------------------------------------------------------------------


@query
def upstream_steps(tx: Transaction, *, ids: Sequence[int]) -> list[UpstreamStep]: ...


@query
def elements(tx: Transaction, *, blocks: Sequence[str]) -> list[Element]:
    """The elements of maps, in order."""
    ...


@query
def failures_behind(tx: Transaction, *, ids: Sequence[int]) -> list[Failure]:
    """Upstream steps and children of these steps that ended without having concluded."""
    ...


@query
def plans(tx: Transaction, *, ids: Sequence[int]) -> list[Plan]: ...


@query
def plans_of_dependents(tx: Transaction, *, id: int) -> list[str]: ...


@query
def waiting_dependents(tx: Transaction, *, ids: Sequence[int]) -> list[WaitingDependent]: ...


@query
def planned_steps(tx: Transaction, *, id: str) -> list[PlannedRow]: ...


@query
def live_steps(tx: Transaction, *, after: int, limit: int) -> list[LiveStep]: ...


@query
def contexts(tx: Transaction, *, ids: Sequence[str]) -> list[Context]: ...
