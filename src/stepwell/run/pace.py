"""How long the steps of a worker take, and so how many of them it can claim ahead of free slots."""

from __future__ import annotations

from typing import Final

# One claim takes no more: beyond it, nothing is won (measured: 128 rows a tenth slower, 512 as fast).
BATCH: Final = 256
# Short steps are claimed ahead of free slots: as many as are done in this time.
AHEAD_SECONDS: Final = 0.02
# What has waited here for this long (those before it took longer than expected) is handed back: another worker may have
# a free slot.
MAX_WAIT_SECONDS: Final = 0.5
# Under it, figures are noise; it keeps the number of steps ahead finite.
SHORTEST_SECONDS: Final = 1e-4


class Pace:
    """The mean of the latest runs; a long one counts at once."""

    def __init__(self) -> None:
        self.seconds: float | None = None  # per step; None: not known yet

    def learn(self, seconds: float) -> None:
        known = self.seconds
        self.seconds = seconds if known is None or seconds > 10 * known else 0.9 * known + 0.1 * seconds

    def stop_claiming_ahead(self) -> None:
        """What was claimed ahead had to be handed back: nothing ahead until it is known better."""
        self.seconds = MAX_WAIT_SECONDS

    def steps_ahead(self, slots: int) -> int:
        """How many steps beyond its slots a worker can run in no time."""
        if self.seconds is None:
            return 0
        return min(int(slots * AHEAD_SECONDS / max(self.seconds, SHORTEST_SECONDS)), BATCH)
