"""Stepwell: a durable step dispatcher. Background work as rows in a database that people can read."""

from __future__ import annotations

from stepwell.app import Stepwell
from stepwell.define.registry import JobDefinition, current_step
from stepwell.enqueue.draft import NewStep
from stepwell.model.errors import (
    ActionRefused,
    DatabaseUnavailable,
    IllegalTransition,
    InvalidStep,
    KeyConflict,
    SchemaError,
    StepNotFound,
    StepwellError,
    UnknownAction,
    UnstorableValue,
)
from stepwell.model.states import State
from stepwell.model.step import Step, StepRef, Transition
from stepwell.run.outcomes import Permanent, Reschedule, Retry, Skip, Stop

__version__ = "0.1.0"

__all__ = [
    "ActionRefused",
    "DatabaseUnavailable",
    "IllegalTransition",
    "InvalidStep",
    "JobDefinition",
    "KeyConflict",
    "NewStep",
    "Permanent",
    "Reschedule",
    "Retry",
    "SchemaError",
    "Skip",
    "State",
    "Step",
    "StepNotFound",
    "StepRef",
    "Stepwell",
    "StepwellError",
    "Stop",
    "Transition",
    "UnknownAction",
    "UnstorableValue",
    "current_step",
]
