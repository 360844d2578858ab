"""The audit trail: every operator action is an operation with its items, written in the transaction of the action.

What acts writes it, not what calls: so the command line, the API and the dashboard leave the same rows, and none if
nothing changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepwell.model import codec
from stepwell.model.actors import By, storable
from stepwell.store.engine import operations
from stepwell.store.transaction import Transaction


def record_operation(tx: Transaction, kind: str, by: By, parameters: str = "{}") -> int:
    """A single action, which is done with this transaction; returns the id of its operation."""
    return operations.insert_operation(
        tx,
        kind=kind,
        state="done",
        filters="{}",
        parameters=parameters,
        actor=by.actor,
        reason=storable(by.why),
        undo_of=None,
        now=by.now,
    )


def record_step_action(
    tx: Transaction, kind: str, by: By, step_id: int, state: str, also: Mapping[str, Sequence[int]]
) -> None:
    """`state` is the step's before the action; `also` are the steps that changed with it."""
    operation = record_operation(tx, kind, by)
    operations.record_step(tx, operation=operation, step_id=step_id, state=state, now=by.now)
    for effect, ids in also.items():
        operations.record_also(tx, operation=operation, ids=ids, effect=effect, because_of=step_id, now=by.now)


def record_with_parameters(
    tx: Transaction,
    kind: str,
    by: By,
    parameters: Mapping[str, Any],
    *,
    step_id: int | None = None,
    workflow_id: str | None = None,
) -> int:
    """An action on what `parameters` name, such as a schedule; and the step or workflow that it created."""
    operation = record_operation(tx, kind, by, codec.encode(parameters, "parameters"))
    if step_id is not None:
        operations.record_step(tx, operation=operation, step_id=step_id, state=None, now=by.now)
    if workflow_id is not None:
        operations.record_workflow(tx, operation=operation, workflow_id=workflow_id, state=None, now=by.now)
    return operation


def record_workflow_action(
    tx: Transaction, kind: str, by: By, workflow_id: str, state: str | None, also: Mapping[str, Sequence[int]]
) -> None:
    tx.finalize()  # so that the version that is recorded is the one after the action
    operation = record_operation(tx, kind, by)
    operations.record_workflow(tx, operation=operation, workflow_id=workflow_id, state=state, now=by.now)
    for effect, ids in also.items():
        operations.record_also(tx, operation=operation, ids=ids, effect=effect, because_of=None, now=by.now)
