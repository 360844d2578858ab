"""The injected clock: it provides the times that are stored, decides when a step is due and how long it may run.

Code that waits for something outside the process (another process, a database lock, a signal, a result) uses real time
(`time.monotonic`) directly, because an injected clock cannot speed that up. Ids take their first digits from the system
clock, a `Retry-After` date is compared with it, and the duration of a run is measured in real time.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final, Protocol

# On Linux, CLOCK_MONOTONIC stands still while a virtual machine is suspended. Elsewhere it does not.
_SINCE_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot() -> float:
    """Real seconds that never go back, that pass while the machine is suspended, and that all its processes share.

    For leases: they expire while the machine sleeps.
    """
    return time.clock_gettime(_SINCE_BOOT)


class Clock(Protocol):
    """Wall-clock time for what is stored, monotonic time for durations, and a `sleep` that a test can make instant."""

    def now(self) -> datetime:
        """The current time, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def sleep(self, seconds: float) -> None:
        """Wait for this many seconds."""


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
