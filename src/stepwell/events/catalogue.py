"""The catalogue of events that a program can subscribe to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from stepwell.model.states import State
from stepwell.store import Change, WorkflowChange
from stepwell.store.engine.workflows import Execution


@dataclass(frozen=True, slots=True)
class Event:
    """The base class of all events; `name` is its name outside of Python."""

    name: ClassVar[str] = "event"


@dataclass(frozen=True, slots=True)
class StepChanged(Event):
    """The state of a step changed, whatever changed it; each subclass is for one new state.

    `error` is the error of the run that ended, `duration` how long it took, in seconds.
    """

    name: ClassVar[str] = "step.changed"
    step_id: int
    workflow_id: str | None
    action: str
    from_state: State | None
    to_state: State
    reason: str | None
    actor: str | None
    at: datetime
    attempt: int
    error: str | None
    duration: float | None


class StepCreated(StepChanged):
    """A step was created, or a row written by plain SQL was adopted."""

    __slots__ = ()
    name = "step.created"


class StepPending(StepChanged):
    """A step returned to Pending: a retry, throttled, not completed, rescued, handed back, promoted or revived."""

    __slots__ = ()
    name = "step.pending"


class StepDispatched(StepChanged):
    """A step was dispatched to its queue."""

    __slots__ = ()
    name = "step.dispatched"


class StepRunning(StepChanged):
    """A worker claimed a step, or a parent waits for its children again."""

    __slots__ = ()
    name = "step.running"


class StepCompleted(StepChanged):
    """A step is done, and so are its children."""

    __slots__ = ()
    name = "step.completed"


class StepSkipped(StepChanged):
    """A step was concluded without being completed."""

    __slots__ = ()
    name = "step.skipped"


class StepFailed(StepChanged):
    """A step failed: by its own code, with its parent, because of its children, or after too many rescues."""

    __slots__ = ()
    name = "step.failed"


class StepStopped(StepChanged):
    """A guard, the step itself or an operator stopped it."""

    __slots__ = ()
    name = "step.stopped"


class StepCancelled(StepChanged):
    """An operator cancelled a step, or it was cancelled with its parent."""

    __slots__ = ()
    name = "step.cancelled"


class StepNotRunnable(StepChanged):
    """A step cannot run: something before it or above it did not conclude."""

    __slots__ = ()
    name = "step.not_runnable"


_OF_STATE: Final[dict[State, type[StepChanged]]] = {
    State.PENDING: StepPending,
    State.DISPATCHED: StepDispatched,
    State.RUNNING: StepRunning,
    State.COMPLETED: StepCompleted,
    State.SKIPPED: StepSkipped,
    State.FAILED: StepFailed,
    State.STOPPED: StepStopped,
    State.CANCELLED: StepCancelled,
    State.NOT_RUNNABLE: StepNotRunnable,
}


def event_of(change: Change) -> StepChanged:
    """The event for a change."""
    kind = StepCreated if change.from_state is None else _OF_STATE[change.to_state]
    return kind(
        change.step_id,
        change.workflow_id,
        change.action,
        change.from_state,
        change.to_state,
        change.reason,
        change.actor,
        change.at,
        change.attempt,
        change.error,
        change.duration,
    )


@dataclass(frozen=True, slots=True)
class WorkflowChanged(Event):
    """The state of a declared workflow changed, whatever changed it; `from_state` is None for its start.

    `workflow` is the name of its template.
    """

    name: ClassVar[str] = "workflow.changed"
    workflow_id: str
    namespace: str
    workflow: str
    version: str
    from_state: str | None
    to_state: str
    reason: str | None
    actor: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class TaskFinalizationStarted(Event):
    """A declared workflow settled: its last step ended. `context` has its steps in numbers, as they were then."""

    name: ClassVar[str] = "workflow.task_finalization_started"
    workflow_id: str
    context: Execution


def events_of_workflow(change: WorkflowChange) -> Iterator[WorkflowChanged | TaskFinalizationStarted]:
    """The events for a change of a workflow: if it settled, first that it does."""
    if change.execution is not None:
        yield TaskFinalizationStarted(change.workflow_id, change.execution)
    yield WorkflowChanged(
        change.workflow_id,
        change.namespace,
        change.name,
        change.version,
        change.from_state,
        change.to_state,
        change.reason,
        change.actor,
        change.at,
    )


@dataclass(frozen=True, slots=True)
class FailureNotification(Event):
    """A run failed permanently. `NonNotifiable` errors and cascades publish no notification."""

    name: ClassVar[str] = "step.failure_notification"
    step_id: int
    action: str
    reason: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class StepRescued(Event):
    """The worker of a step died; `poison`: that happened too often, and the step failed."""

    name: ClassVar[str] = "step.rescued"
    step_id: int
    action: str
    worker: str
    poison: bool


@dataclass(frozen=True, slots=True)
class GroupStalled(Event):
    """A group makes no progress although it has work that could run and workers with free slots."""

    name: ClassVar[str] = "group.no_progress"
    group: str
    step_id: int
    seconds: float
