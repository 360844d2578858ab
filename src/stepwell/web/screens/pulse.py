"""What every screen shows: whether dispatching is off, and how many causes of failures there are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from stepwell.app import Stepwell
from stepwell.operate.breaker import BreakerState

# Causes that are counted for the badge.
MOST_CAUSES: Final = 100


@dataclass(frozen=True, slots=True)
class Pulse:
    breaker: BreakerState
    waiting: int  # Pending, while dispatching is off
    causes: int

    def is_late(self, now: datetime) -> bool:
        """Whether dispatching is off for longer than was planned."""
        return self.breaker.late(now) is not None


def pulse_of(app: Stepwell) -> Pulse:
    breaker = app.breaker.state()
    waiting = 0 if breaker.dispatching else app.figures.totals().states["Pending"]
    return Pulse(breaker, waiting, app.figures.number_of_causes(MOST_CAUSES))
