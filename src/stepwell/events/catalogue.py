"""The catalogue of events: what Stepwell tells the program around it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from stepwell.model.states import State
from stepwell.store import Change


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all of them; `name` is what it is called outside of Python."""

    name: ClassVar[str] = "event"


@dataclass(frozen=True, slots=True)
class StepChanged(Event):
    """The state of a step changed, whoever changed it; each of the classes below is one of its states.

    `error` is that of the run that ended; `duration` is how long it took, in seconds.
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
    """A step was created; one that plain SQL wrote, when a tick has given it its place."""

    __slots__ = ()
    name = "step.created"


class StepPending(StepChanged):
    """A step came back to Pending: a retry, throttled, not completed, rescued, handed back, promoted or revived."""

    __slots__ = ()
    name = "step.pending"


class StepDispatched(StepChanged):
    """A step was handed to its queue."""

    __slots__ = ()
    name = "step.dispatched"


class StepRunning(StepChanged):
    """A worker runs a step, or a parent waits for its children again."""

    __slots__ = ()
    name = "step.running"


class StepCompleted(StepChanged):
    """A step is done, and so are its children."""

    __slots__ = ()
    name = "step.completed"


class StepSkipped(StepChanged):
    """A step was concluded without being done."""

    __slots__ = ()
    name = "step.skipped"


class StepFailed(StepChanged):
    """A step failed: by its own code, with its parent, through its children, or given up."""

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
    """The event that announces a change."""
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
class FailureNotification(Event):
    """A run failed for good and somebody should know. `NonNotifiable` errors and cascades raise none."""

    name: ClassVar[str] = "step.failure_notification"
    step_id: int
    action: str
    reason: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class StepRescued(Event):
    """The worker of a step died; `poison` if that has happened too often and the step was given up."""

    name: ClassVar[str] = "step.rescued"
    step_id: int
    action: str
    worker: str
    poison: bool


@dataclass(frozen=True, slots=True)
class GroupStalled(Event):
    """A group has work that could run, workers with free slots, and makes no progress."""

    name: ClassVar[str] = "group.no_progress"
    group: str
    step_id: int
    seconds: float
