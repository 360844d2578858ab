"""When a worker polls for work: at wake-ups, shortly after them, whenever a slot becomes free, and once a second."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from stepwell.store import Wake

POLL_SECONDS: Final = 1.0  # the fallback when a wake-up is lost
# A wake-up may arrive before the commit that it announces (see `NOTIFY_INTERVAL_SECONDS`): poll again soon after it.
ECHO_SECONDS: Final = (0.006, 0.03)
# After this long without a wake-up, the next one is assumed to announce work.
SILENCE_SECONDS: Final = 0.02


class PollTimes:
    """The times at which to poll. Real time, because other processes create the work."""

    def __init__(self) -> None:
        self._times: list[float] = [0.0]
        self._last_wake = 0.0
        self.is_work_expected = False  # in this round: then a claim is made without a read before it
        self.listener_is_precise = False

    def note_wakes(self, wakes: Collection[Wake], now: float) -> None:
        """The wake-ups that started this round."""
        was_silent = now - self._last_wake > SILENCE_SECONDS
        self.is_work_expected = Wake.WORK in wakes and (self.listener_is_precise or was_silent)
        if wakes:
            self._last_wake = now
            self._times = [now, *(now + seconds for seconds in ECHO_SECONDS)]

    def add(self, moment: float) -> None:
        self._times.append(moment)

    def postpone(self, moment: float) -> None:
        """Do not poll before this time."""
        self._times = [moment]

    def next(self) -> float:
        return min(self._times, default=math.inf)

    def take_due(self, now: float) -> bool:
        """Whether it is time to poll; if so, the times that have passed are dropped."""
        if self.next() > now:
            return False
        self._times = [moment for moment in self._times if moment > now]
        return True

    def ensure_one(self, now: float) -> None:
        if not self._times:
            self._times = [now + POLL_SECONDS]
