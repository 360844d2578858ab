"""How a run of a step's code can end, and the exceptions by which code says so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

_MAX_SECONDS: Final = 100 * 365.25 * 86_400


@dataclass(frozen=True, slots=True)
class Done:
    response: Any


@dataclass(frozen=True, slots=True)
class Failed:
    message: str
    stack: str | None = None
    reason: str = "error"


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


class Permanent(Exception):
    """Fail at once: no retry will help."""


def _seconds(value: float | None) -> float | None:
    """Refused in the job's own code, where it is an error like any other, and not later in the worker."""
    if value is not None and not 0 <= value <= _MAX_SECONDS:
        raise ValueError(f"in_ is {value!r}, not a number of seconds between 0 and a hundred years")
    return value


def _moment(value: datetime | None) -> datetime | None:
    if value is not None and value.tzinfo is None:
        raise ValueError("at has no time zone: say datetime.now(UTC), not datetime.now()")
    return value
