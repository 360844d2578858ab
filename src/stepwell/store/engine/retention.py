"""Retention: finding settled workflows and removing them, whole; the archive; the pass that is under way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.model.step import Json, Step
from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class OldStep(msgspec.Struct, frozen=True):
    """A step on the way through the table."""

    id: int
    workflow_id: str
    state: State
    leased: bool
    alone: bool  # the only step of its workflow
    created_at: datetime
    updated_at: datetime


class Member(msgspec.Struct, frozen=True):
    """A step of a workflow that may be removed."""

    id: int
    workflow_id: str
    settled: bool
    promised: bool  # its idempotency key still has to find it


class OldWorkflow(msgspec.Struct, frozen=True):
    """A declared workflow that may be removed."""

    id: str
    state: str
    settled_at: datetime | None
    created_at: datetime
    has_identity: bool


class RetentionRow(msgspec.Struct, frozen=True):
    """What is kept, which pass is under way and what the last one did."""

    keep_days: float | None = None  # None: for ever
    archives: bool | None = None
    archive_days: float | None = None
    recorded_at: datetime | None = None  # None: none has run
    holder: str | None = None
    held_until: datetime | None = None
    cutoff: datetime | None = None
    position: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    workflow_count: int = 0
    step_count: int = 0
    complete_until: datetime | None = None
    deleted_to: int = 0


class Created(msgspec.Struct, frozen=True):
    id: int
    created_at: datetime


class ArchivedRow(msgspec.Struct, frozen=True):
    """What the archive has of a step beside the columns of `steps`."""

    archived_at: datetime
    history: Json
    logs: Json
    depends_on: Json
    answer: Json
    operations: Json


@query
def steps_after(tx: Transaction, *, after: int, limit: int) -> list[OldStep]: ...


@query
def lock_workflows(tx: Transaction, *, workflows: Sequence[str]) -> list[str]:
    """Lock the declared ones among these, but none that somebody else has locked."""
    ...


@query
def declared_workflows(tx: Transaction, *, workflows: Sequence[str]) -> list[OldWorkflow]: ...


@query
def lock_members(tx: Transaction, *, workflows: Sequence[str]) -> list[int]:
    """Lock the steps of these workflows, but none that somebody else has locked."""
    ...


@query
def members(tx: Transaction, *, workflows: Sequence[str], before: datetime, keys_before: datetime) -> list[Member]:
    """Every step of these workflows, and whether it may go."""
    ...


@query
def marked(tx: Transaction, *, ids: Sequence[int]) -> list[int]:
    """The steps among these about which a tick has still to decide something."""
    ...


@change
def archive_steps(tx: Transaction, *, ids: Sequence[int], now: datetime) -> int: ...


@change
def archive_workflows(tx: Transaction, *, workflows: Sequence[str], now: datetime) -> int: ...


@change
def delete_history(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def delete_logs(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def delete_dependencies(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def delete_answers(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def delete_unconcluded(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def delete_items_of_steps(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def delete_items_of_workflows(tx: Transaction, *, workflows: Sequence[str]) -> int: ...


@change
def delete_pauses(tx: Transaction, *, workflows: Sequence[str]) -> int: ...


@change
def delete_workflow_history(tx: Transaction, *, workflows: Sequence[str]) -> int: ...


@change
def delete_workflows(tx: Transaction, *, workflows: Sequence[str]) -> int: ...


@change
def delete_steps(tx: Transaction, *, ids: Sequence[int]) -> int: ...


def remove_workflows(tx: Transaction, *, workflows: Sequence[str], ids: Sequence[int]) -> int:
    """Delete whole workflows with all that belongs to them: the only way in which steps are deleted.

    `ids` are all their steps, locked and checked by the caller. Returns the number of deleted steps.
    """
    for delete in (
        delete_history, delete_logs, delete_dependencies, delete_answers, delete_unconcluded, delete_items_of_steps,
    ):  # fmt: skip
        delete(tx, ids=ids)
    for delete_of_workflows in (
        delete_items_of_workflows, delete_pauses, delete_workflow_history, delete_workflows,
    ):  # fmt: skip
        delete_of_workflows(tx, workflows=workflows)
    return delete_steps(tx, ids=ids)


@change
def delete_operations(tx: Transaction, *, before: datetime, limit: int) -> int:
    """Operations that are about nothing that is left."""
    ...


@query
def crons_with_leftovers(tx: Transaction, *, after: int, before: datetime) -> list[int]: ...


@query
def lock_cron(tx: Transaction, *, id: int) -> int | None: ...


@change
def delete_executions(tx: Transaction, *, job_id: int, before: datetime, limit: int) -> int:
    """Executions that have ended and whose step or workflow is gone."""
    ...


@query
def delete_slots(tx: Transaction, *, job_id: int, before: datetime, limit: int) -> list[datetime]:
    """Delete the oldest rows of the ledger whose execution is gone; returns the last slot of each."""
    ...


@change
def ledger_begins_after(tx: Transaction, *, job_id: int, slot: datetime) -> int: ...


@query
def archived_step(tx: Transaction, *, id: int | None, uuid: str | None) -> Step | None: ...


@query
def archived_with(tx: Transaction, *, id: int) -> ArchivedRow | None: ...


@query
def archived_workflow(tx: Transaction, *, workflow: str) -> datetime | None:
    """When a workflow was archived."""
    ...


@query
def archived_before(tx: Transaction, *, before: datetime, limit: int) -> list[str]: ...


@query
def archived_members(tx: Transaction, *, workflows: Sequence[str]) -> list[int]: ...


@change
def delete_archived_steps(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def delete_archived_workflows(tx: Transaction, *, workflows: Sequence[str]) -> int: ...


@change
def delete_old_archived_workflows(tx: Transaction, *, before: datetime) -> int: ...


@query
def recorded(tx: Transaction) -> RetentionRow | None: ...


def status(tx: Transaction) -> RetentionRow:
    """The row, or an empty one."""
    return recorded(tx) or RetentionRow()


@change
def ensure_row(tx: Transaction) -> int: ...


@change
def record_settings(
    tx: Transaction, *, keep_days: float | None, archives: bool, archive_days: float | None, now: datetime
) -> int: ...


@change
def take_pass(tx: Transaction, *, holder: str, until: datetime, now: datetime) -> int:
    """Become the process that makes the pass; 0 if another one is."""
    ...


@change
def begin_pass(tx: Transaction, *, holder: str, cutoff: datetime, now: datetime) -> int: ...


@change
def advance(tx: Transaction, *, holder: str, until: datetime, position: int) -> int:
    """Keep the pass and record how far it is; 0 if another process has taken over."""
    ...


@change
def count_removed(tx: Transaction, *, workflow_count: int, step_count: int, deleted_to: int) -> int: ...


@change
def end_pass(tx: Transaction, *, holder: str, now: datetime) -> int: ...


@change
def release(tx: Transaction, *, holder: str) -> int: ...


@query
def deleted_to(tx: Transaction) -> int: ...


@query
def step_from(tx: Transaction, *, id: int) -> Created | None:
    """The step with this id, or the next one."""
    ...


@query
def newest_id(tx: Transaction) -> int | None: ...
