"""How a run of a step's code can end, and the exceptions by which code says so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


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
        self.in_ = in_
        self.at = at


class Reschedule(Outcome):
    """Run me later: throttled, spends nothing."""

    def __init__(self, *, in_: float = 0.0, at: datetime | None = None) -> None:
        super().__init__("reschedule")
        self.in_ = in_
        self.at = at


class Stop(Outcome):
    """End as Stopped: no retry, and handlers of the block are promoted."""


class Skip(Outcome):
    """End as Skipped: concluded without a result."""


class Permanent(Exception):
    """Fail at once: no retry will help."""
