"""Operations: what operators did, or are about to do, and to which steps and workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stepwell.model.states import State
from stepwell.model.step import Json
from stepwell.store.conditions import workflow_conditions
from stepwell.store.engine.operator import LockedStep
from stepwell.store.list_sources import narrowed
from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class OperationRow(msgspec.Struct, frozen=True):
    """An operation, as stored; a preview has no actor yet."""

    id: int
    kind: str
    state: str
    filters: Json
    parameters: Json
    actor: str | None
    reason: str | None
    undo_of: int | None
    pace: float | None
    next_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class StepToAssess(LockedStep, frozen=True):
    item_id: int
    seen: int | None
    version: int | None
    alone: bool  # no parent, no children, nothing before or behind it


class WorkflowToAssess(msgspec.Struct, frozen=True):
    item_id: int
    id: str


class OpenItem(msgspec.Struct, frozen=True):
    id: int
    step_id: int | None
    workflow_id: str | None
    state: str | None
    seen: int | None


class StepVersion(msgspec.Struct, frozen=True):
    id: int
    version: int | None
    state: State
    reason: str | None


class WorkflowVersion(msgspec.Struct, frozen=True):
    id: str
    version: int | None
    state: str
    paused: bool


class ItemCount(msgspec.Struct, frozen=True):
    role: str
    effect: str | None
    expected: str | None
    outcome: str | None
    items: int


class Targets(msgspec.Struct, frozen=True):
    """How many steps or workflows an operation is about, and the first of them."""

    id: int
    targets: int
    step_id: int | None
    workflow_id: str | None


class ActionCount(msgspec.Struct, frozen=True):
    action: str
    state: State
    steps: int


class Item(msgspec.Struct, frozen=True):
    """A step or workflow that an operation is about, or a step that changes with one."""

    id: int
    step_id: int | None
    workflow_id: str | None
    role: str
    effect: str | None
    because_of: int | None
    state: str | None
    expected: str | None
    outcome: str | None
    message: str | None
    at: datetime | None


@query
def insert_operation(
    tx: Transaction,
    *,
    kind: str,
    state: str,
    filters: str,
    parameters: str,
    actor: str | None,
    reason: str | None,
    undo_of: int | None,
    now: datetime,
) -> int:
    """Returns its id."""
    ...


@change
def set_parameters(tx: Transaction, *, id: int, parameters: str) -> int: ...


@query
def operation(tx: Transaction, *, id: int) -> OperationRow | None: ...


@query
def lock_operation(tx: Transaction, *, id: int) -> OperationRow | None: ...


@query
def newest_operations(tx: Transaction, *, before: int, limit: int) -> list[OperationRow]: ...


@query
def operations_of_step(tx: Transaction, *, step_id: int, limit: int) -> list[OperationRow]: ...


@query
def operations_of_workflow(tx: Transaction, *, workflow_id: str, limit: int) -> list[OperationRow]: ...


@query
def undo_of(tx: Transaction, *, id: int) -> int | None: ...


@change
def end_preview(tx: Transaction, *, id: int) -> int: ...


@change
def start_operation(
    tx: Transaction, *, id: int, actor: str, reason: str | None, pace: float | None, now: datetime
) -> int: ...


@change
def postpone_operation(tx: Transaction, *, id: int, next_at: datetime) -> int: ...


@change
def end_operation(tx: Transaction, *, id: int, now: datetime) -> int: ...


@change
def delete_items_of_previews(tx: Transaction, *, before: datetime) -> int: ...


@change
def delete_previews(tx: Transaction, *, before: datetime) -> int: ...


@change
def freeze_for_undo(tx: Transaction, *, operation: int, undone: int) -> int: ...


@query
def steps_to_assess(tx: Transaction, *, operation: int, after: int, limit: int) -> list[StepToAssess]: ...


@query
def workflows_to_assess(tx: Transaction, *, operation: int, after: int, limit: int) -> list[WorkflowToAssess]: ...


@query
def open_items(tx: Transaction, *, operation: int, limit: int) -> list[OpenItem]: ...


@query
def step_versions(tx: Transaction, *, ids: Sequence[int]) -> list[StepVersion]: ...


@query
def workflow_versions(tx: Transaction, *, ids: Sequence[str]) -> list[WorkflowVersion]: ...


@change
def record_expected(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def record_expected_refusal(tx: Transaction, *, id: int, message: str) -> int: ...


@change
def record_done(tx: Transaction, *, ids: Sequence[int], now: datetime) -> int: ...


@change
def record_outcome(tx: Transaction, *, id: int, outcome: str, message: str, now: datetime) -> int: ...


@change
def expect_also(tx: Transaction, *, operation: int, ids: Sequence[int], effect: str, because_of: int | None) -> int: ...


@change
def record_also(
    tx: Transaction, *, operation: int, ids: Sequence[int], effect: str, because_of: int | None, now: datetime
) -> int: ...


@change
def record_step(tx: Transaction, *, operation: int, step_id: int, state: str | None, now: datetime) -> int: ...


@change
def record_workflow(tx: Transaction, *, operation: int, workflow_id: str, state: str | None, now: datetime) -> int: ...


@query
def cancellation_stands(tx: Transaction, *, operation: int, workflow_id: str) -> bool | None: ...


@query
def count_items(tx: Transaction, *, operation: int) -> list[ItemCount]: ...


@query
def targets_of(tx: Transaction, *, ids: Sequence[int], most: int) -> list[Targets]: ...


@query
def targets_by_action(tx: Transaction, *, operation: int) -> list[ActionCount]: ...


@query
def items(
    tx: Transaction,
    *,
    operation: int,
    role: str,
    expected: str | None,
    outcome: str | None,
    after: int,
    limit: int,
) -> list[Item]: ...


def freeze_steps(tx: Transaction, *, operation: int, filters: Mapping[str, Any]) -> int:
    """Make every matching step a target, in the version that it has now; returns how many they are."""
    conditions = narrowed(tx.dialect, filters)
    return tx.execute(
        "INSERT INTO steps_operation_items (operation_id, step_id, role, state, seen) "
        f"SELECT {conditions.placeholder('operation', operation)}, id, 'target', state, "
        "(SELECT max(t.id) FROM step_transitions t WHERE t.step_id = steps.id) "
        f"FROM steps WHERE {conditions} ORDER BY id",
        conditions.parameters,
    )


def freeze_workflows(tx: Transaction, *, operation: int, filters: Mapping[str, Any]) -> int:
    conditions = workflow_conditions(tx.dialect, filters)
    return tx.execute(
        "INSERT INTO steps_operation_items (operation_id, workflow_id, role, state, seen) "
        f"SELECT {conditions.placeholder('operation', operation)}, id, 'target', state, "
        "(SELECT max(t.id) FROM steps_workflow_transitions t WHERE t.workflow_id = steps_workflows.id) "
        f"FROM steps_workflows WHERE {conditions} ORDER BY id",
        conditions.parameters,
    )
