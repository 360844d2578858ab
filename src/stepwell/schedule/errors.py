"""The errors of schedules, and what a scheduler does about each (docs/schedules.md)."""

from __future__ import annotations

from stepwell.model.errors import CronParseError, DatabaseBusy, DatabaseUnavailable, StepwellError


class InvalidSchedule(StepwellError, ValueError):
    """A schedule that cannot be registered; the message has everything that is wrong. Nothing was written."""


class ScheduleNotFound(StepwellError, LookupError):
    """No schedule has this name."""


class SchedulerError(StepwellError):
    """The base class of what can go wrong with one schedule while a scheduler runs. The others are not affected."""


class ConnectionPoolExhaustedError(SchedulerError, DatabaseUnavailable):
    """The database cannot be reached, or no connection is free: the scheduler waits and tries again."""


class TransactionError(SchedulerError, DatabaseBusy):
    """The transaction of a schedule could not be completed: it is left out until the next cycle."""


class QueryExecutionError(SchedulerError):
    """A statement about a schedule failed: it is left out until the next cycle."""


class JobCreationError(SchedulerError):
    """The step of a due slot cannot be created: tried again in the next cycle, and the slot is kept until then."""


def classified(error: Exception) -> Exception:
    """The error in the words of schedulers.

    >>> type(classified(DatabaseBusy("locked"))).__name__
    'TransactionError'
    """
    if isinstance(error, CronParseError | SchedulerError):
        return error
    kind: type[SchedulerError] = QueryExecutionError
    if isinstance(error, DatabaseBusy):
        kind = TransactionError
    elif isinstance(error, DatabaseUnavailable):
        kind = ConnectionPoolExhaustedError
    elif isinstance(error, StepwellError):
        kind = JobCreationError
    made = kind(f"{type(error).__name__}: {error}")
    made.__cause__ = error
    return made
