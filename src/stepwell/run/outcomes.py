"""The exceptions by which a job's code says how its run is to end, and the value that says «not done yet»."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Final

_MAX_SECONDS: Final = 100 * 365.25 * 86_400


class NotCompleted(Enum):
    """The type of `NOT_COMPLETED`."""

    NOT_COMPLETED = "not_completed"


# Returned by `compute`: I have done a part; run me again after my cooldown. No retry is spent.
NOT_COMPLETED: Final = NotCompleted.NOT_COMPLETED


class Outcome(Exception):
    """Raised by a job to end its run in another way than by returning or failing."""


class Retry(Outcome):
    """Run me again: spends a retry. `in_` seconds or `at` a moment; by default after the backoff."""

    def __init__(self, message: str = "retry", *, in_: float | None = None, at: datetime | None = None) -> None:
        super().__init__(message)
        self.in_ = _seconds(in_)
        self.at = _moment(at)


class Reschedule(Outcome):
    """Run me later: throttled, spends nothing."""

    def __init__(self, *, in_: float = 0.0, at: datetime | None = None) -> None:
        super().__init__("reschedule")
        self.in_ = _seconds(in_) or 0.0
        self.at = _moment(at)


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


def _seconds(value: float | None) -> float | None:
    """Refused in the job's own code, where it is an error like any other, and not later in the worker."""
    if value is not None and not 0 <= value <= _MAX_SECONDS:
        raise ValueError(f"in_ is {value!r}, not a number of seconds between 0 and a hundred years")
    return value


def _moment(value: datetime | None) -> datetime | None:
    if value is not None and value.tzinfo is None:
        raise ValueError("at has no time zone: say datetime.now(UTC), not datetime.now()")
    return value
