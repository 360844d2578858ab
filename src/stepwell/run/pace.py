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


class Pace:
    """A moving average over recent runs; one that took far longer replaces it at once."""

    def __init__(self) -> None:
        self.seconds: float | None = None  # per step; None: not known yet

    def learn(self, seconds: float) -> None:
        known = self.seconds
        self.seconds = seconds if known is None or seconds > 10 * known else 0.9 * known + 0.1 * seconds

    def stop_claiming_ahead(self) -> None:
        """Claims had to be returned to Pending: claim nothing ahead until runs are measured to be short again."""
        self.seconds = MAX_WAIT_SECONDS

    def steps_ahead(self, slots: int) -> int:
        """How many steps to claim beyond the free slots."""
        if self.seconds is None:
            return 0
        return min(int(slots * AHEAD_SECONDS / max(self.seconds, SHORTEST_SECONDS)), BATCH)
