"""Every name that `from stepwell import …` offers.

What defines jobs and enqueues steps is loaded with this module, the rest when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

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
    AppClosed,
    DatabaseBusy,
    DatabaseUnavailable,
    IllegalTransition,
    InvalidRequest,
    InvalidStep,
    KeyConflict,
    OperationNotFound,
    SchemaError,
    StepArchived,
    StepDidNotConclude,
    StepNotFound,
    StepTimeout,
    StepwellError,
    UnknownAction,
    UnstorableValue,
    WorkflowConflict,
    WorkflowDefinitionError,
    WorkflowNotFound,
)
from stepwell.model.states import State
from stepwell.model.step import Retried, Step, StepRef, Transition
from stepwell.run.current import current_step
from stepwell.run.log_fields import StepLogFilter
from stepwell.run.results import Results, StepResult
from stepwell.run.running import RunningStep
from stepwell.run.workflow_request import WorkflowRequest
from stepwell.share.ranges import HashRange, UniqueId
from stepwell.share.strategies import DivideTotalValueEqually, SortByDateCreated

if TYPE_CHECKING:
    from stepwell.operate.operations import Operation, Preview
    from stepwell.operate.retention import RetentionOptions
    from stepwell.workflow.outcome import Outcome
    from stepwell.workflow.run import Run
    from stepwell.workflow.steps import DeclaredStep, Gate
    from stepwell.workflow.template import Template
    from stepwell.workflow.workflow import Workflow

_LATER: Final = {
    "Operation": "stepwell.operate.operations",
    "Preview": "stepwell.operate.operations",
    "RetentionOptions": "stepwell.operate.retention",
    "Outcome": "stepwell.workflow.outcome",
    "Run": "stepwell.workflow.run",
    "DeclaredStep": "stepwell.workflow.steps",
    "Gate": "stepwell.workflow.steps",
    "Template": "stepwell.workflow.template",
    "Workflow": "stepwell.workflow.workflow",
}

__all__ = [
    "ActionRefused",
    "AppClosed",
    "DatabaseBusy",
    "DatabaseUnavailable",
    "DeclaredStep",
    "DivideTotalValueEqually",
    "Gate",
    "Handle",
    "HashRange",
    "IllegalTransition",
    "InvalidRequest",
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
    "Outcome",
    "Permanent",
    "Preview",
    "Reschedule",
    "Results",
    "RetentionOptions",
    "Retried",
    "Retry",
    "Run",
    "RunningStep",
    "SchemaError",
    "Skip",
    "SortByDateCreated",
    "State",
    "Step",
    "StepDidNotConclude",
    "StepLogFilter",
    "StepArchived",
    "StepNotFound",
    "StepRef",
    "StepResult",
    "StepTimeout",
    "Stepwell",
    "StepwellError",
    "Stop",
    "Template",
    "Transition",
    "UniqueId",
    "UnknownAction",
    "UnstorableValue",
    "Workflow",
    "WorkflowConflict",
    "WorkflowDefinitionError",
    "WorkflowNotFound",
    "WorkflowRequest",
    "current_step",
]


def __getattr__(name: str) -> object:
    """Called for a name that this module does not have yet."""
    if name not in _LATER:
        raise AttributeError(f"module 'stepwell' has no attribute {name!r}")
    found = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found
