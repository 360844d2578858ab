"""Connections for reads with a time limit: apart from those of the engine, each used by one thread at a time."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

# Instructions of SQLite's machine between two looks at the clock: about a tenth of a millisecond.
LOOK_EVERY: Final = 10_000


class BoundedReaders:
    """Kept open between uses; there are as many as were ever used at once."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._lock = threading.Condition()
        self._idle: list[sqlite3.Connection] = []
        self._in_use = 0
        self._generation = 0  # those of an earlier one are closed after their use
        self._is_held_for_fork = False

    @contextmanager
    def lease(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            generation = self._generation
            connection = self._idle.pop() if self._idle else self._opened()
            self._in_use += 1
        try:
            yield connection
        finally:
            with self._lock:
                self._in_use -= 1
                if generation == self._generation:
                    self._idle.append(connection)
                else:
                    connection.close()
                self._lock.notify_all()

    def _opened(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def close(self) -> None:
        with self._lock:
            self._generation += 1
            connections, self._idle = self._idle, []
        for connection in connections:
            connection.close()

    # While the process forks, no connection to the file is open: see `SqliteConnections`.

    def before_fork(self, seconds: float) -> None:
        """Wait until none is in use (a read has its time limit), close them, and let none be opened."""
        self._is_held_for_fork = self._lock.acquire(timeout=seconds)
        if self._is_held_for_fork:
            self._lock.wait_for(lambda: self._in_use == 0, seconds)
            self.close()

    def after_fork(self) -> None:
        if self._is_held_for_fork:
            self._is_held_for_fork = False
            self._lock.release()


@contextmanager
def time_limit(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Interrupt what the connection does when the time is over."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), LOOK_EVERY)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
