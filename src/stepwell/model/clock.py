"""Time, injected: nothing else in Stepwell asks the machine what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for durations, and the only way to wait."""

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
