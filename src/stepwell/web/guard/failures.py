"""Failed sign-ins, by the address that they come from: too many are refused with 429.

A valid token or code is always accepted: behind a proxy all visitors have one address, and no visitor may lock out
others. What keeps a token from being guessed is its length.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from stepwell.web.problems import HttpProblem

MOST_FAILURES: Final = 20
WINDOW_SECONDS: Final = 60.0
MOST_ADDRESSES: Final = 1_000


class Failures:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_address: dict[str, list[float]] = {}

    def add_or_refuse(self, address: str) -> None:
        """Count a failure; raises 429 if there were too many within a minute."""
        with self._lock:
            if len(self._recent(address)) >= MOST_FAILURES:
                raise HttpProblem(429, "too many failed sign-ins from this address", "try again in a minute")
            if len(self._by_address) >= MOST_ADDRESSES and address not in self._by_address:
                self._by_address.pop(next(iter(self._by_address)))
            self._by_address[address] = [*self._recent(address), self._clock()][-MOST_FAILURES:]

    def _recent(self, address: str) -> list[float]:
        since = self._clock() - WINDOW_SECONDS
        return [when for when in self._by_address.get(address, ()) if when > since]
