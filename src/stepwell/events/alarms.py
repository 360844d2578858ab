"""Alarms: events that need attention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from stepwell.events.event import Event


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


@dataclass(frozen=True, slots=True)
class ScheduleSlotMissed(Event):
    """A slot of a schedule has not succeeded within its `expect_within`: once per slot, or per gap of many.

    `slot` is the newest such slot, `first_slot` the oldest since the last success.
    """

    name: ClassVar[str] = "schedule.slot_missed"
    schedule: str
    slot: datetime
    first_slot: datetime
    expect_within: float
    at: datetime


@dataclass(frozen=True, slots=True)
class RetentionBehind(Event):
    """Retention does not keep up: steps are overdue for removal by `seconds`. Once, until it has caught up."""

    name: ClassVar[str] = "retention.behind"
    seconds: float
    backlog: int
    keep_days: float
