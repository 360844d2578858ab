"""The exceptions by which a job's code says how its run is to end, and the value that says "not done yet"."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Real
from typing import Any, Final, TypeAlias

from stepwell.model.times import MAX_SECONDS, in_utc, problem_of_moment, seconds_of

# When to run again: after a number of seconds, after a timedelta, or at a moment.
When: TypeAlias = float | timedelta | datetime


class NotCompleted(Enum):
    """The type of `NOT_COMPLETED`."""

    NOT_COMPLETED = "not_completed"


# Returned by `compute`: I have done a part; run me again after my cooldown. No retry is spent.
NOT_COMPLETED: Final = NotCompleted.NOT_COMPLETED


class Outcome(Exception):
    """Raised by a job to end its run in another way than by returning or failing."""


class Retry(Outcome):
    """Run me again: spends a retry. `in_` seconds or `at` a moment; by default after the backoff.

    A time may come first, in place of the message.

    >>> Retry("the bank is closed", in_=60).in_, Retry(timedelta(minutes=1)).in_, Retry(60).in_
    (60.0, 60.0, 60.0)
    """

    def __init__(
        self, message: str | When = "retry", *, in_: float | timedelta | None = None, at: datetime | None = None
    ) -> None:
        text, self.in_, self.at = _understood(message, "retry", in_, at)
        super().__init__(text)


class Reschedule(Outcome):
    """Run me later: throttled, spends nothing. The time as in `Retry`; by default at once."""

    def __init__(
        self, message: str | When = "reschedule", *, in_: float | timedelta | None = None, at: datetime | None = None
    ) -> None:
        text, seconds, self.at = _understood(message, "reschedule", in_, at)
        super().__init__(text)
        self.in_ = seconds or 0.0


class Stop(Outcome):
    """End as Stopped: no retry, and handlers of the block are promoted."""


class Skip(Outcome):
    """End as Skipped: concluded without a result."""


class JustEnd(Skip):
    """Enough: neither failed nor completed. Ends as Skipped."""


class JustResolve(Outcome):
    """Nothing to retry and nothing to report: `resolve_exception` runs, and the own code is done."""


class Fail(Outcome):
    """End as Failed, now: no retry, no `ignore_exception`, no `resolve_exception`."""

    def __init__(self, error: str | BaseException = "failed") -> None:
        super().__init__(error)
        self.error = error if isinstance(error, BaseException) else None


class Permanent(Exception):
    """No retry will help."""


class MaxRetriesReached(Exception):
    """Enough retries: fail, whatever is left of them."""


class NonNotifiable(Exception):
    """Fail, and tell nobody."""


def _understood(
    first: Any, usual: str, in_: float | timedelta | None, at: datetime | None
) -> tuple[Any, float | None, datetime | None]:
    """The message, the seconds and the moment. What comes first is the message or, by its type, the time.

    Refused in the job's own code, where it is an error like any other, and not later in the worker.
    """
    if _is_time(first):
        if in_ is not None or at is not None:
            raise ValueError(f"{usual}({first!r}, …): that is a time already; leave out in_ and at")
        in_, at = (None, first) if isinstance(first, datetime) else (first, None)
        first = usual
    if in_ is not None and at is not None:
        raise ValueError(f"{usual}(in_={in_!r}, at={at!r}): say one of the two")
    if not isinstance(first, str | BaseException):
        raise TypeError(f"{usual}({first!r}): say a message, seconds, a timedelta or a datetime")
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
