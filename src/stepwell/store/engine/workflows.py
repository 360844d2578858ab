"""Declared workflows: starting and reading them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.model.step import Json
from stepwell.store.changes import WorkflowChange
from stepwell.store.statement import query, workflow_transition
from stepwell.store.transaction import Transaction


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
    next_change_at: datetime | None  # the earliest moment at which anything changes without an operator
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


@workflow_transition
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
    belongs_to: str | None,
    now: datetime,
) -> list[WorkflowChange]:
    """Returns nothing if there is one with the same identity."""
    ...


@query
def workflow_with_identity(tx: Transaction, *, identity: str) -> str | None: ...


@query
def workflow(tx: Transaction, *, id: str) -> WorkflowRow | None: ...


@query
def newest_workflows(
    tx: Transaction, *, state: str | None, name: str | None, before: str, limit: int
) -> list[ListedWorkflow]: ...


@query
def workflow_ids_between(tx: Transaction, *, first: str, last: str) -> list[str]: ...


@query
def workflow_transitions(tx: Transaction, *, id: str) -> list[WorkflowTransition]: ...


@query
def execution(tx: Transaction, *, ids: Sequence[str]) -> list[Execution]: ...


@query
def template_steps(tx: Transaction, *, id: str) -> list[TemplateStep]: ...
