"""The past: every state at an earlier moment, from the history alone."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.store.statement import query
from stepwell.store.transaction import Transaction


class StepThen(msgspec.Struct, frozen=True):
    """A step as it was at an earlier moment; `since` is when it came into that state."""

    id: int
    uuid: str
    label: str | None
    action: str
    type: str
    kind: str
    template: str | None
    element: int | None
    parent_step_id: int | None
    state: State
    reason: str | None
    actor: str | None
    since: datetime
    attempt: int
    error: str | None


class WorkflowRowThen(msgspec.Struct, frozen=True):
    id: str
    namespace: str
    name: str
    version: str
    state: str
    reason: str | None
    actor: str | None
    since: datetime


@query
def steps_at(tx: Transaction, *, workflow: str | None, id: int | None, at: datetime) -> list[StepThen]:
    """All steps of a workflow, or one step; those that existed."""
    ...


@query
def workflow_at(tx: Transaction, *, id: str, at: datetime) -> WorkflowRowThen | None: ...


@query
def workflow_exists(tx: Transaction, *, id: str) -> bool: ...
