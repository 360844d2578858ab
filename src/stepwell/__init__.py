"""Stepwell: a durable step dispatcher. Background work is rows in SQLite or PostgreSQL."""

from __future__ import annotations

from stepwell.app import Stepwell
from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import NewStep
from stepwell.define.job import Job
from stepwell.define.outcomes import (
    NOT_COMPLETED,
    JustEnd,
    JustResolve,
    MaxRetriesReached,
    NonNotifiable,
    Permanent,
    Reschedule,
    Retry,
    Skip,
    Stop,
)
from stepwell.enqueue.handle import Handle
from stepwell.model.errors import (
    ActionRefused,
    DatabaseBusy,
    DatabaseUnavailable,
    IllegalTransition,
    InvalidStep,
    KeyConflict,
    OperationNotFound,
    SchemaError,
    StepDidNotConclude,
    StepNotFound,
    StepTimeout,
    StepwellError,
    UnknownAction,
    UnstorableValue,
)
from stepwell.model.states import State
from stepwell.model.step import Step, StepRef, Transition
from stepwell.operate.actions import Retried
from stepwell.operate.operations import Operation, Preview
from stepwell.run.current import current_step
from stepwell.run.running import RunningStep
from stepwell.share.ranges import HashRange, UniqueId
from stepwell.share.strategies import DivideTotalValueEqually, SortByDateCreated

__version__ = "0.1.0"

__all__ = [
    "ActionRefused",
    "DatabaseBusy",
    "DatabaseUnavailable",
    "DivideTotalValueEqually",
    "Handle",
    "HashRange",
    "IllegalTransition",
    "InvalidStep",
    "Job",
    "JobDefinition",
    "JustEnd",
    "JustResolve",
    "KeyConflict",
    "MaxRetriesReached",
    "NOT_COMPLETED",
    "NewStep",
    "NonNotifiable",
    "Operation",
    "OperationNotFound",
    "Permanent",
    "Preview",
    "Reschedule",
    "Retried",
    "Retry",
    "RunningStep",
    "SchemaError",
    "Skip",
    "SortByDateCreated",
    "State",
    "Step",
    "StepDidNotConclude",
    "StepNotFound",
    "StepRef",
    "StepTimeout",
    "Stepwell",
    "StepwellError",
    "Stop",
    "Transition",
    "UniqueId",
    "UnknownAction",
    "UnstorableValue",
    "current_step",
]
