"""Reads with a time limit: those of people who look, which must not get in the way of the work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadLimit(threading.local):
    """How long a read of one database may take in this thread: see `Database.bounded`."""

    def __init__(self) -> None:
        self.seconds: float | None = None

    @contextmanager
    def of(self, seconds: float) -> Iterator[None]:
        outer, self.seconds = self.seconds, seconds
        try:
            yield
        finally:
            self.seconds = outer
