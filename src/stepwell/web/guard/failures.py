"""Failed sign-ins, by the address that they come from: whoever guesses has to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

MOST_FAILURES: Final = 20
WINDOW_SECONDS: Final = 60.0
MOST_ADDRESSES: Final = 1_000


class Failures:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_address: dict[str, list[float]] = {}

    def add(self, address: str) -> None:
        with self._lock:
            if len(self._by_address) >= MOST_ADDRESSES and address not in self._by_address:
                self._by_address.pop(next(iter(self._by_address)))
            self._by_address[address] = [*self._recent(address), self._clock()][-MOST_FAILURES:]

    def too_many(self, address: str) -> bool:
        with self._lock:
            return len(self._recent(address)) >= MOST_FAILURES

    def _recent(self, address: str) -> list[float]:
        since = self._clock() - WINDOW_SECONDS
        return [when for when in self._by_address.get(address, ()) if when > since]
