"""When a worker looks for work: at wake-ups, shortly after them, whenever a slot becomes free, and once a second."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from stepwell.store import Wake

POLL_SECONDS: Final = 1.0  # the floor under every wake-up
# A wake-up may be older than the commit that it is about (see `NOTIFY_INTERVAL_SECONDS`): look again soon after it.
ECHO_SECONDS: Final = (0.006, 0.03)
# After this long without a wake-up, any is taken for one about work.
SILENCE_SECONDS: Final = 0.02


class PollTimes:
    """Moments at which to look, in real time: it is other processes that bring work."""

    def __init__(self) -> None:
        self._times: list[float] = [0.0]
        self._last_wake = 0.0
        self.is_work_expected = False  # in this round, that there is work: then a claim need not look first
        self.listener_is_precise = False

    def note_wakes(self, wakes: Collection[Wake], now: float) -> None:
        """What woke the worker for this round."""
        was_silent = now - self._last_wake > SILENCE_SECONDS
        self.is_work_expected = Wake.WORK in wakes and (self.listener_is_precise or was_silent)
        if wakes:
            self._last_wake = now
            self._times = [now, *(now + seconds for seconds in ECHO_SECONDS)]

    def add(self, moment: float) -> None:
        self._times.append(moment)

    def postpone(self, moment: float) -> None:
        """None before this."""
        self._times = [moment]

    def next(self) -> float:
        return min(self._times, default=math.inf)

    def take_due(self, now: float) -> bool:
        """Whether it is time to look; if so, those times are over."""
        if self.next() > now:
            return False
        self._times = [moment for moment in self._times if moment > now]
        return True

    def ensure_one(self, now: float) -> None:
        if not self._times:
            self._times = [now + POLL_SECONDS]
