"""How long the steps of a worker take, and how many it can therefore claim ahead of free slots."""

from __future__ import annotations

from typing import Final

# The most steps in one claim (measured: 128 is a tenth slower, 512 no faster).
BATCH: Final = 256
# Short steps are claimed ahead of free slots: as many as run in this time.
AHEAD_SECONDS: Final = 0.02
# A claim that has waited for a slot for this long (the steps before it took longer than expected) returns to Pending:
# another worker may have a free slot.
MAX_WAIT_SECONDS: Final = 0.5
# Shorter measurements are noise; also keeps the number of steps ahead finite.
SHORTEST_SECONDS: Final = 1e-4


class ClaimAhead:
    """A moving average over recent runs; one that took far longer replaces it at once."""

    def __init__(self) -> None:
        self.seconds_per_step: float | None = None  # None: not known yet

    def learn(self, seconds: float) -> None:
        known = self.seconds_per_step
        self.seconds_per_step = seconds if known is None or seconds > 10 * known else 0.9 * known + 0.1 * seconds

    def stop(self) -> None:
        """Claims had to be returned to Pending: claim nothing ahead until runs are measured to be short again."""
        self.seconds_per_step = MAX_WAIT_SECONDS

    def steps(self, slots: int) -> int:
        """How many steps to claim beyond the free slots."""
        if self.seconds_per_step is None:
            return 0
        return min(int(slots * AHEAD_SECONDS / max(self.seconds_per_step, SHORTEST_SECONDS)), BATCH)
