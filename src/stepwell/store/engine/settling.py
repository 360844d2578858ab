"""Settling workflows: their states follow from their steps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.store.changes import WorkflowChange
from stepwell.store.statement import change, query, workflow_transition
from stepwell.store.transaction import Transaction


class LockedWorkflow(msgspec.Struct, frozen=True):
    id: str
    namespace: str
    name: str
    version: str
    state: str
    belongs_to: str | None


@query
def lock_workflows(tx: Transaction, *, ids: Sequence[str]) -> list[LockedWorkflow]: ...


@workflow_transition
def settle(
    tx: Transaction, *, locked: Sequence[LockedWorkflow], actor: str | None, now: datetime
) -> list[WorkflowChange]:
    """Set the state that follows from the steps; returns the workflows whose state changed."""
    ...


@change
def forget_cancellation(tx: Transaction, *, ids: Sequence[str]) -> int: ...


@query
def lock_for_new_steps(tx: Transaction, *, id: str) -> str | None: ...
