"""What the steps of workflows take: their plans, the results of other steps, the context."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepwell.model.states import State
from stepwell.store.statement import query
from stepwell.store.transaction import Transaction


class WaitingDependent(msgspec.Struct, frozen=True):
    id: int
    plan: str
    upstream: str


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
