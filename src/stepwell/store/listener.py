"""Hearing that something changed: a hint that saves waiting. What was not heard is found by looking now and then."""

from __future__ import annotations

import os
import select
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from stepwell.store.wal import log_of
from stepwell.store.watch import watch_file


class Wake(StrEnum):
    """What a transaction can tell the others when it commits."""

    WORK = "work"  # there may be steps to run
    DECISIONS = "decisions"  # there may be something for a tick to decide


ANY_WAKE: Final = frozenset(Wake)
# SQLite tells nobody, so it is asked: 2.4 µs a time, and waking up for it costs ten times as much.
POLL_SECONDS_SQLITE: Final = 0.002
# Where a write to the log wakes us, asking is only the floor under it.
WATCHED_POLL_SECONDS: Final = 0.5
# From the write of the log to the end of the commit there is a sync: a millisecond, on a slow disk some more.
ALERT_SECONDS: Final = 0.05


class Listener(ABC):
    """Listens to one database on behalf of one loop."""

    poll_seconds: float | None = None  # how often to ask; None: `fileno` wakes whoever waits
    is_precise = False  # whether it hears what was told, and not only that something was
    alert_seconds = 0.0002  # how often to ask while a commit is near

    @abstractmethod
    def fileno(self) -> int:
        """What becomes readable when there is news; -1 if nothing does."""

    @abstractmethod
    def poll_wakes(self) -> Collection[Wake]:
        """What was told since the last time; never blocks."""

    @abstractmethod
    def close(self) -> None: ...

    def wait(self, files: Sequence[Any], seconds: float) -> Collection[Wake]:
        """Until there is news, one of the files is readable, or the time is over."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        for file in [*files, self] if self.fileno() >= 0 else files:
            poll.register(file, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            pause = left if self.poll_seconds is None else min(left, self.poll_seconds)
            ready = poll.poll(max(1000 * pause, 0.0))
            news = self.poll_wakes()
            if news or ready or left <= 0:
                return news


class SqliteListener(Listener):
    """Asks SQLite whether another connection has committed: of this process or of any other.

    It is woken by the write to the log, which comes shortly before the commit can be seen: from then on it asks often.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._version = self._ask()
        self._watch = watch_file(log_of(path))
        self._alert_until = 0.0
        self.poll_seconds = POLL_SECONDS_SQLITE if self._watch is None else WATCHED_POLL_SECONDS

    def _ask(self) -> int:
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    def fileno(self) -> int:
        return -1 if self._watch is None else self._watch

    def poll_wakes(self) -> Collection[Wake]:
        before = self._version
        with suppress(sqlite3.OperationalError):  # busy: ask again
            self._version = self._ask()
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
                news, ready = self.poll_wakes(), bool(poll.poll(0))
                if news or ready or now >= deadline:
                    return news
                time.sleep(self.alert_seconds)
                continue
            news = super().wait(files, deadline - now)
            if news or time.monotonic() >= self._alert_until:
                return news

    def close(self) -> None:
        self._connection.close()
        if self._watch is not None:
            os.close(self._watch)


class CommitListener(Listener):
    """For a database that only this process can see: its own commits are all there is."""

    poll_seconds = POLL_SECONDS_SQLITE

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


class NoListener(Listener):
    """For those who only look now and then."""

    def fileno(self) -> int:
        return -1

    def poll_wakes(self) -> Collection[Wake]:
        return ()

    def close(self) -> None:
        pass
