"""Operator actions on whole workflows: cancel, retry, resolve. Each is recorded with who did it and why."""

from __future__ import annotations

from collections.abc import Callable

from stepwell.model.actors import By, actor_of
from stepwell.model.errors import ActionRefused
from stepwell.model.reasons import REVIVED as REVIVED_REASON
from stepwell.model.states import UNFINISHED
from stepwell.model.workflow_states import SETTLED
from stepwell.operate.revival import refuse_leased, revive_all
from stepwell.operate.step_actions import CANCELLED, REVIVED, Also
from stepwell.store import Database, Transaction
from stepwell.store.audit import record_workflow_action
from stepwell.store.engine import operator, settling, workflows
from stepwell.store.engine.operator import LockedStep, UnconcludedStep
from stepwell.store.engine.settling import LockedWorkflow
from stepwell.store.missing import missing_workflow


class WorkflowActions:
    def __init__(self, database: Database) -> None:
        self._database = database

    def cancel(self, workflow_id: str, who: str, why: str | None = None) -> list[int]:
        """End every step that has not ended, and settle as cancelled; returns the ids of the cancelled steps.

        Running code is notified. The workflow settles when its processes have ended.
        """
        return self._act("cancel_workflow", cancel, workflow_id, who, why).get(CANCELLED, [])

    def retry(self, workflow_id: str, who: str, why: str | None = None) -> list[int]:
        """Return every step that ended without concluding to Pending; returns the ids of the revived steps."""
        return self._act("retry_workflow", retry, workflow_id, who, why).get(REVIVED, [])

    def resolve(self, workflow_id: str, who: str, why: str | None = None) -> None:
        """Declare a workflow that ended in error, or was cancelled, as resolved by hand. Its steps stay as they are."""
        self._act("resolve_workflow", resolve, workflow_id, who, why)

    def _act(
        self, kind: str, act: Callable[[Transaction, str, By], Also], workflow_id: str, who: str, why: str | None
    ) -> Also:
        actor = actor_of(who)

        def work(tx: Transaction) -> Also:
            operator.lock_groups_of_workflow(tx, workflow=workflow_id)
            by = By(actor, why, self._database.now())
            before = workflows.workflow(tx, id=workflow_id)
            also = act(tx, workflow_id, by)
            record_workflow_action(tx, kind, by, workflow_id, None if before is None else before.state, also)
            return also

        return self._database.transact(work)


def plan_cancellation(tx: Transaction, workflow_id: str) -> Also:
    row = _found(tx, workflow_id)
    _refuse_settled(row.id, row.state)
    return {CANCELLED: operator.cancellable_of_workflow(tx, workflow=workflow_id)}


def cancel(tx: Transaction, workflow_id: str, by: By) -> Also:
    changes = operator.cancel_workflow_steps(tx, workflow=workflow_id, actor=by.actor, now=by.now)
    row = _locked(tx, workflow_id)
    _refuse_settled(row.id, row.state)
    operator.record_cancellation(tx, workflow=row.id, actor=by.actor, reason=by.reason, now=by.now)
    return {CANCELLED: [change.step_id for change in changes]}


def _refuse_settled(workflow_id: str, state: str) -> None:
    if state in SETTLED:
        raise ActionRefused(f"workflow {workflow_id} has settled ({state}); nothing changed")


def plan_retry(tx: Transaction, workflow_id: str) -> list[LockedStep]:
    """The steps that return to Pending; they are locked."""
    ids = _retriable(operator.unconcluded_of_workflow(tx, workflow=workflow_id))
    if not ids:
        row = _found(tx, workflow_id)
        raise ActionRefused(
            f"workflow {workflow_id} is {row.state}: no step of it failed or was cancelled; nothing changed"
        )
    steps = operator.lock_for_revival(tx, ids=ids)
    refuse_leased(steps)
    return steps


def _retriable(steps: list[UnconcludedStep]) -> list[int]:
    """All but those below a step that has concluded, by hand: nothing can run there any more."""
    found: set[int] = set()
    for step in steps:  # a parent comes before its children
        if step.parent_step_id in found or step.parent_state is None or step.parent_state in UNFINISHED:
            found.add(step.id)
    return sorted(found)


def retry(tx: Transaction, workflow_id: str, by: By) -> Also:
    steps = plan_retry(tx, workflow_id)
    revive_all(tx, steps, by.actor, by.now, reason=by.reason if by.why else REVIVED_REASON)
    return {REVIVED: [step.id for step in steps]}


def plan_resolution(tx: Transaction, workflow_id: str) -> Also:
    row = _found(tx, workflow_id)
    if row.state not in ("error", "cancelled"):
        raise _unresolvable(workflow_id, row.state)
    return {}


def resolve(tx: Transaction, workflow_id: str, by: By) -> Also:
    row = _locked(tx, workflow_id)
    if not operator.resolve_workflow(tx, locked=[row], actor=by.actor, reason=by.reason, now=by.now):
        raise _unresolvable(workflow_id, row.state)
    return {}


def _unresolvable(workflow_id: str, state: str) -> ActionRefused:
    return ActionRefused(
        f"workflow {workflow_id} is {state}: only one that ended in error or was cancelled can be "
        "resolved manually; nothing changed"
    )


def _locked(tx: Transaction, workflow_id: str) -> LockedWorkflow:
    found = settling.lock_workflows(tx, ids=[workflow_id])
    if not found:
        raise missing_workflow(tx, workflow_id)
    return found[0]


def _found(tx: Transaction, workflow_id: str) -> workflows.WorkflowRow:
    found = workflows.workflow(tx, id=workflow_id)
    if found is None:
        raise missing_workflow(tx, workflow_id)
    return found
