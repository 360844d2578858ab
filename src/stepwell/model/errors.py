"""Every error that Stepwell raises on purpose. Each says what happened and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.model.step import Step


class StepwellError(Exception):
    """The base of all of them."""


class InvalidStep(StepwellError, ValueError):
    """A step that cannot be created: bad arguments, an unknown parent, a cycle. Nothing was written."""


class BadChildren(InvalidStep):
    """What a step wanted below itself cannot be created: it fails, for no other attempt would make better ones."""


class UnstorableValue(InvalidStep):
    """A value that JSON, SQLite or PostgreSQL cannot keep; the message gives its path."""


class StepNotFound(StepwellError, LookupError):
    """No step has that id or uuid."""


class KeyConflict(StepwellError):
    """The idempotency key belongs to a step with another action or other arguments."""


class IllegalTransition(StepwellError):
    """A change of state that the transition table does not know, or that only an operator may make."""


class ActionRefused(StepwellError):
    """An operator's action that would not do what it promises; the message names what stands in the way."""


class SchemaError(StepwellError):
    """The database's schema is older or newer than this program, or damaged."""


class DatabaseUnavailable(StepwellError):
    """The database could not be reached; nothing is known to have been written."""


class DatabaseBusy(DatabaseUnavailable):
    """Another transaction was in the way for too long, perhaps one of the caller's own; nothing was written."""


class LockLost(StepwellError):
    """Another dispatcher took this group over; the tick that lost the lock commits nothing more."""


class UnknownAction(StepwellError, LookupError):
    """No job of that name is registered with this app."""


class AppNotFound(StepwellError):
    """What was named as `module:variable` is no app."""


class ConfigError(StepwellError):
    """Settings that cannot be used: one line for each problem, with its file and line or its environment variable."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class StepTimeout(StepwellError, TimeoutError):
    """A step that somebody waited for has not ended in time; it goes on all the same."""


class StepDidNotConclude(StepwellError):
    """A step that somebody waited for failed, was stopped or cancelled, or cannot run; `step` is how it ended."""

    def __init__(self, message: str, step: Step) -> None:
        super().__init__(message)
        self.step = step
