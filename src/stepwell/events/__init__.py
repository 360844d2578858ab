"""Events: one for every change of a step's state, whatever made it, and alarms. Published after the commit."""

from __future__ import annotations

from stepwell.events.catalogue import (
    Event,
    FailureNotification,
    GroupStalled,
    StepCancelled,
    StepChanged,
    StepCompleted,
    StepCreated,
    StepDispatched,
    StepFailed,
    StepNotRunnable,
    StepPending,
    StepRescued,
    StepRunning,
    StepSkipped,
    StepStopped,
    TaskFinalizationStarted,
    WorkflowChanged,
)
from stepwell.events.subscribers import Events

__all__ = [
    "Event",
    "Events",
    "FailureNotification",
    "GroupStalled",
    "StepCancelled",
    "StepChanged",
    "StepCompleted",
    "StepCreated",
    "StepDispatched",
    "StepFailed",
    "StepNotRunnable",
    "StepPending",
    "StepRescued",
    "StepRunning",
    "StepSkipped",
    "StepStopped",
    "TaskFinalizationStarted",
    "WorkflowChanged",
]
