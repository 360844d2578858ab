"""Checkpoints of the write-ahead log, made by the process that has just committed.

SQLite before 3.51.3 can corrupt a WAL file when one connection checkpoints while another writes. A `RESTART` checkpoint
blocks writers while it runs, so it is the only kind that is used.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from stepwell.store.sqlite.connection import BUSY_SECONDS
from stepwell.store.sqlite.lock_holders import suspended_reader_of
from stepwell.store.sqlite.wal import is_longer_than, log_of

_LOGGER: Final = logging.getLogger("stepwell.sqlite")

# Well below the 1,000 pages at which SQLite would checkpoint by itself.
CHECKPOINT_PAGES: Final = 500
# After a checkpoint that a reader blocked, wait this many times as long as it took before the next one.
BLOCKED_BACKOFF: Final = 6.0
# A checkpoint would wait for a suspended reader for the full busy timeout, and keep all writers waiting with it. So the
# log grows, as it would anyway. How soon to look again:
SUSPENDED_READER_SECONDS: Final = 1.0


class Checkpoints:
    """Keeps the write-ahead log of one file short."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._changes = 0
        self._not_before = 0.0
        self._reported: int | None = None  # the suspended reader

    def after_commit(self) -> None:
        with suppress(OSError, sqlite3.OperationalError):
            if self._connection.total_changes == self._changes:  # nothing written since the last check
                return
            self._changes = self._connection.total_changes
            started = time.monotonic()
            if started < self._not_before or not is_longer_than(CHECKPOINT_PAGES, log_of(self._path)):
                return
            if self._is_behind_a_suspended_reader():
                self._not_before = started + SUSPENDED_READER_SECONDS
                return
            # With the full busy timeout: without the write lock, SQLite would fall back to a PASSIVE checkpoint.
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
            try:
                (is_busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            finally:
                self._connection.execute("PRAGMA busy_timeout = 0")
            if is_busy:
                now = time.monotonic()
                self._not_before = now + BLOCKED_BACKOFF * (now - started)

    def _is_behind_a_suspended_reader(self) -> bool:
        holder = suspended_reader_of(self._path)
        pid = None if holder is None else holder.pid
        if holder is not None and pid != self._reported:
            _LOGGER.warning("%s; until then, its write-ahead log grows", holder)
        self._reported = pid
        return holder is not None
