"""How long to wait after a failure: exponential backoff with a limit and jitter."""

from __future__ import annotations

import random
from typing import Final

# For all parts. The first retry is soon, because most failures are one lost connection. The longest delay is shorter
# than the time that a reaper gives workers with the default lease after an outage (`HEARTBEAT_GRACE_LEASES`), so that
# every worker has sent a heartbeat before it starts; one connection attempt in ten seconds is no load for a server that
# is starting up.
FAILURE_SECONDS: Final = (0.2, 10.0)


class RetryDelay:
    """The delays of one operation that may fail repeatedly.

    >>> delay = RetryDelay((1.0, 4.0))
    >>> [0.5 * longest <= delay.next() <= longest for longest in (1.0, 2.0, 4.0, 4.0)]
    [True, True, True, True]
    """

    def __init__(self, seconds: tuple[float, float] | None = None) -> None:
        self._first, self._longest = FAILURE_SECONDS if seconds is None else seconds
        self._seconds = self._first

    def next(self) -> float:
        """After a failure: how many seconds to wait. Jittered, so that what failed together does not retry together."""
        seconds = self._seconds
        self._seconds = min(2 * seconds, self._longest)
        return seconds * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """After a success."""
        self._seconds = self._first
