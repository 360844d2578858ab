"""The catalogue: every event that Stepwell publishes, by its name."""

from __future__ import annotations

from typing import Final

from stepwell.events.alarms import FailureNotification, GroupStalled, RetentionBehind, ScheduleSlotMissed, StepRescued
from stepwell.events.event import Event
from stepwell.events.steps import (
    StepCancelled,
    StepChanged,
    StepCompleted,
    StepCreated,
    StepDispatched,
    StepFailed,
    StepNotRunnable,
    StepPending,
    StepRunning,
    StepSkipped,
    StepStopped,
)
from stepwell.events.workflows import (
    TaskFinalizationStarted,
    WorkflowCancelled,
    WorkflowChanged,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowInProgress,
    WorkflowPending,
    WorkflowResolved,
    WorkflowStarted,
)
from stepwell.model.suggest import refuse_unknown

# In the order of the documentation.
CATALOGUE: Final[dict[str, type[Event]]] = {
    kind.name: kind
    for kind in (
        StepChanged,
        StepCreated,
        StepPending,
        StepDispatched,
        StepRunning,
        StepCompleted,
        StepSkipped,
        StepFailed,
        StepStopped,
        StepCancelled,
        StepNotRunnable,
        WorkflowChanged,
        WorkflowStarted,
        WorkflowPending,
        WorkflowInProgress,
        WorkflowCompleted,
        WorkflowFailed,
        WorkflowCancelled,
        WorkflowResolved,
        TaskFinalizationStarted,
        FailureNotification,
        StepRescued,
        GroupStalled,
        ScheduleSlotMissed,
        RetentionBehind,
    )
}


def event_class(name: str) -> type[Event]:
    """The class of the events with this name.

    >>> event_class("step.completed").__name__
    'StepCompleted'
    >>> event_class("step.complete")
    Traceback (most recent call last):
    ...
    stepwell.model.errors.StepwellError: events: unknown event 'step.complete'; did you mean step.completed?
    """
    refuse_unknown("events", [name], CATALOGUE, "event")
    return CATALOGUE[name]
