"""Tasks of main processes: which step is live, what they depend on, and what a queueing or the reschedule beat does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.model.step import Json, Priority
from stepwell.model.task_states import TaskState
from stepwell.store.statement import change, change_and_wake, query
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


class QueuedTask(msgspec.Struct, frozen=True):
    """A task with the state that follows from its live step."""

    id: int
    task_class: str
    entity: str
    part: str
    main_process: str
    step_id: int | None  # None only until the queueing that has added the task creates it
    state: TaskState


class ListedTask(QueuedTask, frozen=True):
    """The same, for people."""

    priority: float | None
    queued_at: datetime


class TaskOfStep(msgspec.Struct, frozen=True):
    """A step of a main process; without a task if another step has taken its place."""

    step_id: int
    state: State
    has_children: bool
    task_id: int | None
    task_class: str | None
    max_not_completed: int | None
    max_rescues: int | None
    has_dependencies: bool
    has_dependents: bool


class Dependency(msgspec.Struct, frozen=True):
    """A task, and a class that it depends on."""

    task_id: int
    depends_on: str


class UnmetDependency(msgspec.Struct, frozen=True):
    """A dependee that keeps a task from being complete."""

    task_id: int
    task_class: str
    part: str
    step_id: int
    state: State


class CompletedTask(msgspec.Struct, frozen=True):
    """A completed task, with what a step that succeeds its own needs."""

    task_id: int
    step_id: int
    action: str
    arguments: Json
    label: str | None
    queue: str
    priority: Priority
    max_retries: int
    timeout: float
    cooldown: float
    relatable_type: str | None
    relatable_id: str | None
    concurrency_key: str | None
    concurrency_limit: int


class FailedQueueing(msgspec.Struct, frozen=True):
    """A queueing that was rolled back, and why. A task-state error names the task."""

    id: int
    main_process: str
    at: datetime
    error: str
    message: str
    task_class: str | None
    task_state: TaskState | None
    step_id: int | None
    resolved_at: datetime | None  # when the main process was queued again


class ExplainedTask(msgspec.Struct, frozen=True):
    """The task of a step, and the newest failure to queue it again, with the main process that was not queued."""

    id: int
    task_class: str
    main_process: str
    at: datetime | None
    message: str | None


class RunsOfClass(msgspec.Struct, frozen=True):
    """How many of the latest runs were tasks of one class."""

    task_class: str
    priority: float | None
    runs: int
    seconds: float  # that they took together, in slots


@change
def add_task(tx: Transaction, *, task_class: str, entity: str, part: str, main_process: str, now: datetime) -> int: ...


@query
def lock_tasks_of_classes(tx: Transaction, *, classes: Sequence[str]) -> list[int]:
    """Until this transaction ends, no other queueing decides about these tasks."""
    ...


@query
def tasks_of_classes(tx: Transaction, *, classes: Sequence[str], now: datetime) -> list[QueuedTask]: ...


@change
def make_task_new(
    tx: Transaction,
    *,
    id: int,
    main_process: str,
    step_id: int,
    weight: float | None,
    max_not_completed: int | None,
    max_rescues: int | None,
    now: datetime,
) -> int: ...


@change
def delete_task(tx: Transaction, *, id: int) -> int: ...


@query
def dependencies_of_classes(tx: Transaction, *, classes: Sequence[str]) -> list[Dependency]:
    """What the tasks of these classes depend on."""
    ...


@change
def add_dependency(tx: Transaction, *, task_id: int, depends_on: str) -> int: ...


@change
def delete_dependency(tx: Transaction, *, task_id: int, depends_on: str) -> int: ...


@query
def tasks_of_steps(tx: Transaction, *, ids: Sequence[int]) -> list[TaskOfStep]: ...


@query
def lock_with_dependencies(tx: Transaction, *, step_ids: Sequence[int]) -> list[int]:
    """Lock the tasks of these steps together with those that they depend on, and those that depend on them."""
    ...


@query
def dependents_of(tx: Transaction, *, ids: Sequence[int]) -> list[int]: ...


@query
def unmet_dependencies(tx: Transaction, *, ids: Sequence[int]) -> list[UnmetDependency]:
    """What keeps the latest runs of these tasks from completing them."""
    ...


@query
def completed_tasks(tx: Transaction, *, ids: Sequence[int]) -> list[CompletedTask]:
    """Those of these tasks that are completed."""
    ...


@change
def succeed(tx: Transaction, *, task_id: int, step_id: int) -> int:
    """Make this the live step of the task."""
    ...


@change
def mark_not_completed(tx: Transaction, *, id: int) -> int: ...


@change
def hold_on_agenda(tx: Transaction, *, id: int) -> int: ...


@query
def held_steps(tx: Transaction) -> list[int]:
    """The steps of tasks that are not_completed."""
    ...


@change
def clear_not_completed(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change_and_wake(Wake.WORK)
def release_held(tx: Transaction, *, ids: Sequence[int]) -> int: ...


@change
def add_failed_queueing(
    tx: Transaction,
    *,
    main_process: str,
    error: str,
    message: str,
    task_class: str | None,
    task_state: TaskState | None,
    step_id: int | None,
    now: datetime,
) -> int: ...


@change
def delete_old_failed_queueings(tx: Transaction, *, main_process: str, kept: int) -> int: ...


@change
def resolve_failed_queueings(tx: Transaction, *, main_process: str, now: datetime) -> int: ...


@query
def failed_queueings(tx: Transaction, *, main_process: str, limit: int) -> list[FailedQueueing]:
    """The newest ones, of one main process or (empty) of all."""
    ...


@query
def all_tasks(tx: Transaction, *, now: datetime) -> list[ListedTask]: ...


@query
def task_of_step(tx: Transaction, *, step_id: int) -> ExplainedTask | None: ...


@query
def recent_runs(tx: Transaction, *, limit: int, now: datetime) -> list[RunsOfClass]:
    """How the newest runs of tasks divide among the classes."""
    ...
