"""Whether anything was committed to a SQLite file: `PRAGMA data_version`, which reads 8 bytes of shared memory."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

# Which connection, and its number: the numbers of two connections cannot be compared.
DataVersion: TypeAlias = tuple[int, int]
_CONNECTIONS: Final = itertools.count(1)  # of this process: a database may be closed and opened again


class DataVersions:
    """A connection that does nothing else: it sees the commits of all others, in this process and elsewhere."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._opened = 0  # the number of the connection

    def read(self) -> DataVersion:
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
                self._opened = next(_CONNECTIONS)
            (number,) = self._connection.execute("PRAGMA data_version").fetchone()
            return self._opened, int(number)

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # While the process forks, no connection to the file is open: see `SqliteConnections`.

    def before_fork(self) -> None:
        self._lock.acquire()
        self._disconnect()

    def after_fork(self) -> None:
        self._lock.release()
