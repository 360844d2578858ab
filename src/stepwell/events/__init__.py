"""Events: one for every change of a step's or a workflow's state, whatever made it, and alarms.

They are published after the commit, and delivered to each subscriber in a thread of its own.
"""

from __future__ import annotations

from stepwell.events.alarms import FailureNotification, GroupStalled, RetentionBehind, ScheduleSlotMissed, StepRescued
from stepwell.events.catalogue import CATALOGUE
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
from stepwell.events.subscribers import Events, on
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

__all__ = [
    "CATALOGUE",
    "Event",
    "Events",
    "FailureNotification",
    "GroupStalled",
    "RetentionBehind",
    "ScheduleSlotMissed",
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
    "WorkflowCancelled",
    "WorkflowChanged",
    "WorkflowCompleted",
    "WorkflowFailed",
    "WorkflowInProgress",
    "WorkflowPending",
    "WorkflowResolved",
    "WorkflowStarted",
    "on",
]
