"""How long to wait after a failure: twice as long each time, up to a limit, and never exactly as long as others."""

from __future__ import annotations

import random
from typing import Final

# For everything that runs. The first retry comes soon: most failures are one lost connection. The longest delay is
# shorter than the time that a reaper gives workers after an outage (`HEARTBEAT_GRACE_SECONDS`), so that every worker
# has been heard of when it begins; one connection attempt in ten seconds costs a server that is starting up nothing.
FAILURE_SECONDS: Final = (0.2, 10.0)


class RetryDelay:
    """The delays of one thing that may fail again and again.

    >>> delay = RetryDelay((1.0, 4.0))
    >>> [0.5 * longest <= delay.next() <= longest for longest in (1.0, 2.0, 4.0, 4.0)]
    [True, True, True, True]
    """

    def __init__(self, seconds: tuple[float, float] | None = None) -> None:
        self._first, self._longest = FAILURE_SECONDS if seconds is None else seconds
        self._seconds = self._first

    def next(self) -> float:
        """It has failed: how many seconds to wait. With jitter, because what fails together would retry together."""
        seconds = self._seconds
        self._seconds = min(2 * seconds, self._longest)
        return seconds * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """It has succeeded."""
        self._seconds = self._first
