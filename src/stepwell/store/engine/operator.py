"""Operator actions on steps and workflows; each records who did it and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.store.changes import Change, WorkflowChange
from stepwell.store.engine.settling import LockedWorkflow
from stepwell.store.statement import change, change_and_settle, change_and_wake, query, transition, workflow_transition
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


class LockedStep(msgspec.Struct, frozen=True):
    """A step that is locked until this transaction ends."""

    id: int
    label: str | None
    action: str
    state: State
    reason: str | None
    type: str
    lease_worker: str | None
    parent_step_id: int | None
    own_code_done_at: datetime | None
    child_block_uuid: str | None
    kind: str
    template: str | None
    element: int | None

    def __str__(self) -> str:
        return f"step {self.id} ({self.label or self.action})"


class RevivableStep(msgspec.Struct, frozen=True):
    id: int
    parent_step_id: int | None


class UnconcludedStep(RevivableStep, frozen=True):
    parent_state: State | None


@transition
def cancel_by_hand(tx: Transaction, *, id: int, actor: str, reason: str, now: datetime) -> list[Change]: ...


@transition
def fail_by_hand(tx: Transaction, *, id: int, actor: str, reason: str, now: datetime) -> list[Change]: ...


@transition
def stop_by_hand(tx: Transaction, *, id: int, actor: str, reason: str, now: datetime) -> list[Change]: ...


@transition
def skip_by_hand(tx: Transaction, *, id: int, actor: str, reason: str, now: datetime) -> list[Change]: ...


@transition
def complete_by_hand(
    tx: Transaction, *, id: int, actor: str, reason: str, response: str, now: datetime
) -> list[Change]: ...


@transition
def revive(
    tx: Transaction, *, ids: Sequence[int], actor: str, reason: str, keep_plan: bool, now: datetime
) -> list[Change]:
    """Return ended steps to Pending, or to Running if their own code is done; `keep_plan`: not before they are due."""
    ...


@transition
def answer_gate(
    tx: Transaction, *, id: int, response: str, actor: str, reason: str | None, now: datetime
) -> list[Change]:
    """Complete an open gate with its answer."""
    ...


@transition
def make_dormant_again(tx: Transaction, *, id: int, actor: str, now: datetime) -> list[Change]:
    """A handler that was revived with its parent waits for a failure again."""
    ...


@query
def lock_group_of(tx: Transaction, *, id: int) -> str | None:
    """Block ticks of the step's group until this transaction ends."""
    ...


@query
def lock_groups_of_steps(tx: Transaction, *, ids: Sequence[int]) -> list[str]: ...


@query
def lock_groups_of_workflow(tx: Transaction, *, workflow: str) -> list[str]: ...


@query
def lock_for_revival(tx: Transaction, *, ids: Sequence[int]) -> list[LockedStep]: ...


@query
def revivable_children(tx: Transaction, *, ids: Sequence[int]) -> list[int]:
    """Children that are revived with these steps."""
    ...


@query
def revivable_successors(tx: Transaction, *, ids: Sequence[int]) -> list[RevivableStep]: ...


@query
def handlers_that_ran(tx: Transaction, *, ids: Sequence[int]) -> list[int]:
    """The exception handlers next to and below these steps that have ended, and are not promoted again."""
    ...


@query
def completable(tx: Transaction, *, ids: Sequence[int]) -> list[int]:
    """Those of these steps that may be completed by hand."""
    ...


@query
def has_open_children(tx: Transaction, *, id: int) -> bool: ...


@query
def members_to_skip(tx: Transaction, *, id: int) -> list[int]:
    """The descendants that the next tick skips with this step."""
    ...


@change
def recheck_dependents(tx: Transaction, *, ids: Sequence[int]) -> int:
    """Make open dependents unchecked: the next tick checks whether they wait again."""
    ...


@change
def tally_reset(tx: Transaction, *, id: int) -> int:
    """Count a throttled step as one that is not, before `reset_attempts`."""
    ...


@change
def reset_attempts(tx: Transaction, *, id: int, now: datetime) -> int:
    """Set the counters of a Pending step to 0, and drop the delay after its last attempt."""
    ...


@change_and_wake(Wake.DECISIONS)
def recheck(tx: Transaction, *, id: int) -> int:
    """Make the next tick check whether a step can run."""
    ...


@change_and_wake(Wake.DECISIONS)
def pause_workflow(tx: Transaction, *, workflow: str, actor: str, reason: str | None, now: datetime) -> int: ...


@change_and_wake(Wake.DECISIONS)
def resume_workflow(tx: Transaction, *, workflow: str) -> int: ...


@change
def remove_workflow_from_agenda(tx: Transaction, *, workflow: str) -> int: ...


@change
def mark_workflow(tx: Transaction, *, workflow: str) -> int: ...


@transition
def cancel_workflow_steps(tx: Transaction, *, workflow: str, actor: str, now: datetime) -> list[Change]:
    """Cancel everything of a declared workflow that has not ended, and what could not run."""
    ...


@query
def cancellable_of_workflow(tx: Transaction, *, workflow: str) -> list[int]: ...


@change_and_settle
def record_cancellation(tx: Transaction, *, workflow: str, actor: str, reason: str, now: datetime) -> int: ...


@workflow_transition
def resolve_workflow(
    tx: Transaction, *, locked: Sequence[LockedWorkflow], actor: str, reason: str, now: datetime
) -> list[WorkflowChange]: ...


@query
def unconcluded_of_workflow(tx: Transaction, *, workflow: str) -> list[UnconcludedStep]: ...
