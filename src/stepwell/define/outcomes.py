"""The exceptions that a job raises to choose how its run ends, and the value that means "not completed yet"."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Real
from typing import Any, Final, TypeAlias

from stepwell.model.times import MAX_SECONDS, in_utc, problem_of_moment, seconds_of

# When to run again: after a number of seconds, after a timedelta, or at a point in time.
When: TypeAlias = float | timedelta | datetime


class NotCompleted(Enum):
    """The type of `NOT_COMPLETED`."""

    NOT_COMPLETED = "not_completed"


# Returned by `compute`: the work is not finished; run the step again after its cooldown. Spends no retry.
NOT_COMPLETED: Final = NotCompleted.NOT_COMPLETED


class Outcome(Exception):
    """Raised by a job to end its run other than by returning or failing."""


class Retry(Outcome):
    """Run the step again: spends a retry. After `in_` seconds or at the time `at`; by default after the backoff.

    A time may be passed first, in place of the message.

    >>> Retry("the bank is closed", in_=60).in_, Retry(timedelta(minutes=1)).in_, Retry(60).in_
    (60.0, 60.0, 60.0)
    """

    def __init__(
        self, message: str | When = "retry", *, in_: float | timedelta | None = None, at: datetime | None = None
    ) -> None:
        text, self.in_, self.at = _message_and_time(message, "retry", in_, at)
        super().__init__(text)


class Reschedule(Outcome):
    """Run the step later: throttled, spends no retry. The time as in `Retry`; by default at once."""

    def __init__(
        self, message: str | When = "reschedule", *, in_: float | timedelta | None = None, at: datetime | None = None
    ) -> None:
        text, seconds, self.at = _message_and_time(message, "reschedule", in_, at)
        super().__init__(text)
        self.in_ = seconds or 0.0


class Stop(Outcome):
    """End as Stopped: no retry; the exception handlers of the block are promoted."""


class Skip(Outcome):
    """End as Skipped: concluded without a result."""


class JustEnd(Skip):
    """End early, neither failed nor completed: ends as Skipped."""


class JustResolve(Outcome):
    """No retry and no failure: `resolve_exception` runs, and the own code is done."""


class Fail(Outcome):
    """End as Failed, now: no retry, no `ignore_exception`, no `resolve_exception`."""

    def __init__(self, error: str | BaseException = "failed") -> None:
        super().__init__(error)
        self.error = error if isinstance(error, BaseException) else None


class Permanent(Exception):
    """An error that a retry cannot fix."""


class MaxRetriesReached(Exception):
    """Fail as if all retries were spent."""


class NonNotifiable(Exception):
    """Fail without a failure notification."""


def _message_and_time(
    first: Any, usual: str, in_: float | timedelta | None, at: datetime | None
) -> tuple[Any, float | None, datetime | None]:
    """The message, the seconds and the point in time. The first argument is the message or, by its type, the time.

    Invalid values raise here, in the job's own code, not later in the worker.
    """
    if _is_time(first):
        if in_ is not None or at is not None:
            raise ValueError(f"{usual}({first!r}, …): the first argument is a time; omit in_ and at")
        in_, at = (None, first) if isinstance(first, datetime) else (first, None)
        first = usual
    if in_ is not None and at is not None:
        raise ValueError(f"{usual}(in_={in_!r}, at={at!r}): pass only one of them")
    if not isinstance(first, str | BaseException):
        raise TypeError(f"{usual}({first!r}): expected a message, seconds, a timedelta or a datetime")
    return first, None if in_ is None else _seconds(in_), None if at is None else _moment(at)


def _is_time(value: object) -> bool:
    return isinstance(value, Real | Decimal | timedelta | datetime) and not isinstance(value, bool)


def _seconds(value: Any) -> float:
    seconds = seconds_of(value)
    if seconds is None or not 0 <= seconds <= MAX_SECONDS:
        raise ValueError(f"in_ is {ascii(value)[:80]}, not a number of seconds between 0 and a hundred years")
    return seconds


def _moment(value: Any) -> datetime:
    problem = problem_of_moment(value)
    if problem is not None:
        raise ValueError(f"at {problem}")
    return in_utc(value)
