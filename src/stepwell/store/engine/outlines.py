"""Workflows of any size: counts and pages whose cost does not depend on how many steps a workflow has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.model.workflow_states import WorkflowState
from stepwell.store.statement import query
from stepwell.store.transaction import Transaction


class CensusRow(msgspec.Struct, frozen=True):
    """Steps that are alike and in the same state."""

    parent_step_id: int | None
    template: str | None
    action: str
    state: State
    is_throttled: bool
    own_code_done: bool
    index: int | None
    first: int
    last: int
    steps: int


class OutlineStep(msgspec.Struct, frozen=True):
    """A step in an outline: without its arguments, its response and its stack."""

    id: int
    workflow_id: str | None
    parent_step_id: int | None
    label: str | None
    action: str
    template: str | None
    element: int | None
    type: str
    index: int | None
    state: State
    is_throttled: bool
    own_code_done_at: datetime | None
    has_children: bool
    reason: str | None
    error: str | None
    duration: float | None
    created_at: datetime
    updated_at: datetime

    @property
    def name(self) -> str:
        """For display, as the name of a step."""
        return self.label or self.action


class WorkflowInList(msgspec.Struct, frozen=True):
    id: str
    namespace: str
    name: str
    version: str
    state: WorkflowState
    initiator: str | None
    created_at: datetime


@query
def size_of_workflow(tx: Transaction, *, workflow: str, after: int, most: int) -> int:
    """How many steps it has beside its root; more than `most` are not counted."""
    ...


@query
def listed_workflows(
    tx: Transaction, *, state: str | None, name: str | None, before: str, limit: int
) -> list[WorkflowInList]:
    """Declared workflows, the newest first, without their steps in numbers."""
    ...


@query
def census(tx: Transaction, *, workflow: str, after: int, limit: int) -> list[CensusRow]:
    """The next steps of a workflow by id, counted by what makes them alike and by state."""
    ...


@query
def ids_of_workflow(tx: Transaction, *, workflow: str, after: int, limit: int) -> list[int]: ...


@query
def ids_of_children(tx: Transaction, *, parent: int, after: int, limit: int) -> list[int]: ...


@query
def ids_alike_below(tx: Transaction, *, parent: int, action: str, after: int, window: int, limit: int) -> list[int]:
    """Children that run the same action, among the next `window` children."""
    ...


@query
def ids_alike_on_top(
    tx: Transaction, *, workflow: str, action: str, template: str, after: int, window: int, limit: int
) -> list[int]:
    """The same for steps without a parent."""
    ...


@query
def ids_ended_in_workflow(tx: Transaction, *, workflow: str, limit: int) -> list[int]:
    """Of a declared workflow: what has ended and did not conclude."""
    ...


@query
def ids_ended_below(tx: Transaction, *, parent: int, limit: int) -> list[int]:
    """The same of the children of a step."""
    ...


@query
def ids_in_flight(tx: Transaction, *, limit: int) -> list[int]:
    """What is dispatched or runs, of all workflows."""
    ...


@query
def outline_steps(tx: Transaction, *, ids: Sequence[int]) -> list[OutlineStep]: ...
