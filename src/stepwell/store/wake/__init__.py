"""Wake-ups: hints that make loops react sooner. Polling finds whatever no wake-up announced."""

from __future__ import annotations

import select
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any, Final


class Wake(StrEnum):
    """The kinds of wake-up that a commit can send."""

    WORK = "work"  # there may be steps to run
    DECISIONS = "decisions"  # there may be work for a tick
    SCHEDULES = "schedules"  # a schedule was changed


ANY_WAKE: Final = frozenset(Wake)


class Listener(ABC):
    """Listens to one database for one loop."""

    poll_seconds: float | None = None  # how often to poll; None: `fileno` wakes the loop
    is_precise = False  # whether it knows the kind of wake-up, not only that something was committed
    alert_seconds = 0.0002  # how often to poll while a commit is imminent

    @abstractmethod
    def fileno(self) -> int:
        """A descriptor that becomes readable on a wake-up; -1 if there is none."""

    @abstractmethod
    def poll_wakes(self) -> Collection[Wake]:
        """The wake-ups since the last call; never blocks."""

    @abstractmethod
    def close(self) -> None: ...

    def wait(self, files: Sequence[Any], seconds: float) -> Collection[Wake]:
        """Wait for a wake-up, for one of the files to become readable, or for the timeout."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        for file in [*files, self] if self.fileno() >= 0 else files:
            poll.register(file, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            pause = left if self.poll_seconds is None else min(left, self.poll_seconds)
            ready = poll.poll(max(1000 * pause, 0.0))
            woken = self.poll_wakes()
            if woken or ready or left <= 0:
                return woken


class NoListener(Listener):
    """For loops that only poll."""

    def fileno(self) -> int:
        return -1

    def poll_wakes(self) -> Collection[Wake]:
        return ()

    def close(self) -> None:
        pass
