"""The errors that Stepwell raises. Each message says what happened and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stepwell.model.step import Step


class StepwellError(Exception):
    """The base class of all Stepwell errors."""


class InvalidStep(StepwellError, ValueError):
    """A step that cannot be created: bad arguments, an unknown parent, a cycle. Nothing was written."""


class BadChildren(InvalidStep):
    """The children of a step cannot be created: it fails without a retry, because a retry would create the same."""


class UnstorableValue(InvalidStep):
    """A value that JSON, SQLite or PostgreSQL cannot store; the message gives its path."""


class StepNotFound(StepwellError, LookupError):
    """No step has this id or uuid."""


class StepArchived(StepNotFound):
    """The step is in the archive, as it was: `step`."""

    def __init__(self, message: str, step: Step) -> None:
        super().__init__(message)
        self.step = step


class OperationNotFound(StepwellError, LookupError):
    """No operation or preview has this id."""


class KeyConflict(StepwellError):
    """The idempotency key belongs to a step with a different action or different arguments."""


class WorkflowConflict(StepwellError):
    """A workflow with the same identity exists already: `workflow_id`. Nothing was written."""

    def __init__(self, message: str, workflow_id: str) -> None:
        super().__init__(message)
        self.workflow_id = workflow_id


class WorkflowNotFound(StepwellError, LookupError):
    """No declared workflow has this id."""


class IllegalTransition(StepwellError):
    """A change of state that the transition table does not allow, or allows only to an operator."""


class ActionRefused(StepwellError):
    """An operator's action that cannot be carried out; the message says why."""


class SchemaError(StepwellError):
    """The database's schema is older or newer than this program, or damaged."""


class AppClosed(StepwellError):
    """The app was closed with `close()` and not opened again with `open()`."""


class DatabaseUnavailable(StepwellError):
    """The database could not be reached; nothing is known to have been written."""


class DatabaseBusy(DatabaseUnavailable):
    """Another transaction, perhaps the caller's own, held a lock for too long; nothing was written."""


class ReadTookTooLong(DatabaseUnavailable):
    """A read exceeded its time limit and was given up; nothing was written."""


class LockLost(StepwellError):
    """Another dispatcher took over this group; the tick that lost the lock commits nothing more."""


class UnknownAction(StepwellError, LookupError):
    """No job with this name is registered with this app."""


class AppNotFound(StepwellError):
    """The given `module:variable` is not an app."""


class _WithProblems(StepwellError):
    """Several problems, reported together: one line each."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class ConfigError(_WithProblems):
    """Invalid settings: one line for each problem, with its file and line or its environment variable."""


class WorkflowDefinitionError(_WithProblems, ValueError):
    """Workflows that cannot be defined: one line for each problem, from YAML with its file and line."""


class InvalidRequest(StepwellError, ValueError):
    """A request for a workflow that cannot be accepted: an invalid context, or a bypass that is not allowed."""


class CronParseError(StepwellError, ValueError):
    """A cron expression or a time zone that cannot be used; the message says why, and what can be written instead."""


class CronIntervalTooShort(CronParseError):
    """A cron expression two of whose slots are closer together than the minimum interval."""


class StepTimeout(StepwellError, TimeoutError):
    """A step did not end within the time that the caller waited; it is not affected."""


class StepDidNotConclude(StepwellError):
    """A step that the caller waited for failed, was stopped or cancelled, or cannot run; `step` is its last state."""

    def __init__(self, message: str, step: Step) -> None:
        super().__init__(message)
        self.step = step


# An action on one step or workflow that cannot be carried out; others may still be.
REFUSALS: Final = (ActionRefused, StepNotFound, WorkflowNotFound, IllegalTransition)
