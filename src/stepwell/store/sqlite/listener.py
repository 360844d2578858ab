"""Wake-ups on SQLite, which has no notifications: `PRAGMA data_version` changes when another connection commits."""

from __future__ import annotations

import os
import select
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from stepwell.store.forks import survive_forks
from stepwell.store.sqlite.wal import log_of
from stepwell.store.wake import ANY_WAKE, Listener, Wake
from stepwell.store.wake.inotify import watch_file

POLL_SECONDS: Final = 0.002  # a poll takes 2.4 µs, and waking up for it ten times that
# Where inotify reports writes to the log, polling is only the fallback.
WATCHED_POLL_SECONDS: Final = 0.5
# The time from the write of the log to the end of the commit: a sync, about 1 ms, longer on a slow disk.
ALERT_SECONDS: Final = 0.05


class SqliteListener(Listener):
    """Polls for commits of other connections, in this process or another.

    inotify reports the write to the log shortly before the commit becomes visible: from then on it polls often.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None  # of this connection: after a new one, it may have missed a commit
        self._watch: int | None = None
        self._alert_until = 0.0
        survive_forks(self)
        self._version = self._data_version()

    def _data_version(self) -> int:
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            return int(version)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        # Watched anew: the last connection that was closed has deleted the log.
        self._unwatch()
        self._watch = watch_file(log_of(self._path))
        self.poll_seconds = POLL_SECONDS if self._watch is None else WATCHED_POLL_SECONDS
        return connection

    def fileno(self) -> int:
        return -1 if self._watch is None else self._watch

    def poll_wakes(self) -> Collection[Wake]:
        before = self._version
        with suppress(sqlite3.OperationalError):  # busy: poll again
            self._version = self._data_version()
        if self._watch is not None:
            with suppress(BlockingIOError):
                while os.read(self._watch, 65_536):
                    self._alert_until = time.monotonic() + ALERT_SECONDS
        if self._version == before:
            return ()
        self._alert_until = 0.0
        return ANY_WAKE

    def wait(self, files: Sequence[Any], seconds: float) -> Collection[Wake]:
        deadline = time.monotonic() + seconds
        poll = select.poll()
        for file in files:
            poll.register(file, select.POLLIN)
        while True:
            now = time.monotonic()
            if now < self._alert_until:
                woken, ready = self.poll_wakes(), bool(poll.poll(0))
                if woken or ready or now >= deadline:
                    return woken
                time.sleep(self.alert_seconds)
                continue
            woken = super().wait(files, deadline - now)
            if woken or time.monotonic() >= self._alert_until:
                return woken

    def close(self) -> None:
        self._disconnect()
        self._unwatch()

    def _unwatch(self) -> None:
        if self._watch is not None:
            os.close(self._watch)
            self._watch = None

    def _disconnect(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = self._version = None

    def before_fork(self) -> None:
        self._lock.acquire()
        self._disconnect()  # see `SqliteConnections.before_fork`

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock = threading.RLock()


class CommitListener(Listener):
    """For an in-memory database, to which only this process commits."""

    poll_seconds = POLL_SECONDS

    def __init__(self, commits: Callable[[], int]) -> None:
        self._commits = commits
        self._seen = commits()

    def fileno(self) -> int:
        return -1

    def poll_wakes(self) -> Collection[Wake]:
        before, self._seen = self._seen, self._commits()
        return ANY_WAKE if self._seen != before else ()

    def close(self) -> None:
        pass
