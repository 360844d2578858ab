"""When the reaper runs: every five seconds, and when a lease expires without another heartbeat.

After a gap it first gives the workers time to send heartbeats.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final, Protocol

from stepwell.operate.dead_leases import Rescued
from stepwell.service.part import Part
from stepwell.store import Database, Wake

_LOGGER: Final = logging.getLogger("stepwell.reaper")

# After more than two missed rounds it waits half a lease, the longest that a worker was configured with: live workers
# send a heartbeat every third of a lease.
MISSED_ROUNDS: Final = 2
HEARTBEAT_GRACE_LEASES: Final = 0.5
# How long after the end of a lease, in rounds: not before it, and not all reapers at the same moment.
AFTER_EXPIRY_ROUNDS: Final = (0.005, 0.05)


class Rescuing(Protocol):
    """What rescues dead steps: a reaper, or the reschedule beat of main processes."""

    round_seconds: float

    def round(self) -> Rescued: ...

    def longest_lease(self) -> float: ...

    def seconds_to_expiry(self) -> float: ...


class ReaperPart(Part):
    """Runs a reaper."""

    name = "reaper"

    def __init__(self, reaper: Rescuing, database: Database) -> None:
        self._reaper = reaper
        self._database = database
        self._next = 0.0  # when the next round is due, by both clocks
        self._expected: datetime | None = None
        self._rescued = 0

    def round(self, wakes: Collection[Wake]) -> float:
        elapsed, now = self._database.clock.monotonic(), self._database.now()
        if elapsed < self._next:
            return self._next - elapsed
        late = 0.0 if self._expected is None else (now - self._expected).total_seconds()
        if late > MISSED_ROUNDS * self._reaper.round_seconds:
            # The machine was suspended, the database was down or this process was stopped: all workers look dead, and
            # most are not.
            pause = HEARTBEAT_GRACE_LEASES * self._reaper.longest_lease()
            _LOGGER.warning("%s did not run for %.1f s; waiting %.1f s for heartbeats", self.name, late, pause)
        else:
            self._rescued += len(self._reaper.round().rescued)
            pause = self._seconds_to_next_round()
        self._next, self._expected = elapsed + pause, self._database.now() + timedelta(seconds=pause)
        return pause

    def _seconds_to_next_round(self) -> float:
        every = self._reaper.round_seconds
        return min(every, self._reaper.seconds_to_expiry() + every * random.uniform(*AFTER_EXPIRY_ROUNDS))

    def report(self) -> str:
        return f"{self._rescued:,} step{'' if self._rescued == 1 else 's'} rescued" if self._rescued else ""
