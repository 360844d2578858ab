"""Time, injected: this clock says what time is stored, when a step is due and how long it may run.

Real time (`time.monotonic`) is asked directly where no injected clock could help, because the wait is for something
outside: another process, a lock of the database, a signal, a result. Besides, ids take their first digits from the
machine's clock, a `Retry-After` that names a date is compared with it, and the duration of a run is measured by it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for durations, and a way to wait that a test can make instant."""

    def now(self) -> datetime:
        """The present moment, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
