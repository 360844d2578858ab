"""The events about steps: one class for each state that a step can change to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from stepwell.events.event import Event
from stepwell.model.states import State
from stepwell.store import Change


@dataclass(frozen=True, slots=True)
class StepChanged(Event):
    """The state of a step changed, whatever changed it; each subclass is for one new state.

    `error` is the error of the run that ended, `duration` how long that run took, in seconds.
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
