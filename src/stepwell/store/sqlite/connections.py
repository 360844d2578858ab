"""SQLite: one file, two connections per process, each guarded by a lock; reads never wait for the one that writes."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from stepwell.model.errors import DatabaseUnavailable
from stepwell.store.conflict import Conflict
from stepwell.store.connections import Connections, MigrationSession, Settings
from stepwell.store.forks import FORK_SECONDS
from stepwell.store.lock_holder import LockHolder
from stepwell.store.sqlite.bounded_readers import BoundedReaders, time_limit
from stepwell.store.sqlite.callers import callers_transaction
from stepwell.store.sqlite.checkpoints import Checkpoints
from stepwell.store.sqlite.connection import (
    BUSY_SECONDS,
    connect,
    journal_mode,
    reject_old_sqlite,
    switch_to_wal,
    table_names,
)
from stepwell.store.sqlite.listener import CommitListener, SqliteListener
from stepwell.store.sqlite.lock_holders import suspended_writer_of, writer_of
from stepwell.store.sqlite.transaction import SqliteTransaction, translated
from stepwell.store.sqlite.versions import DataVersion, DataVersions
from stepwell.store.wake import Listener

# The first and the longest pause before a writer tries to begin again. SQLite's own busy handler sleeps up to a tenth
# of a second, so a process that retries more often would always get the lock first.
BEGIN_RETRY_SECONDS: Final = (0.0003, 0.005)
# Writers that wait retry within five milliseconds. After a long wait, one may just have given up, and retries a little
# later (`RETRY_SECONDS` of a heartbeat).
LONG_WAIT_SECONDS: Final = 0.1
PASS_SECONDS: Final = (0.02, 0.5)

_IN_MEMORY: Final = (
    "this Stepwell is in the memory of the process that opened it, and a forked process cannot share it; nothing was "
    "done. Use a file (sqlite:///stepwell.db) or PostgreSQL, or open it only after the fork"
)
_IN_TRANSACTION: Final = (
    "the process was forked in the middle of a transaction of Stepwell, so this process cannot use the SQLite file "
    "safely; nothing was done. Fork outside of transactions, or start a new process instead"
)


class SqliteConnections(Connections):
    def __init__(self, settings: Settings, path: Path | None) -> None:
        """`path` is resolved, as SQLite does for the names of its side files; None: in memory."""
        super().__init__(settings)
        reject_old_sqlite()
        self._path = path
        self._lock = threading.RLock()
        self._reading_lock = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._bounded = BoundedReaders(lambda: connect(path))
        self._versions = DataVersions(lambda: connect(path))
        self._checkpoints: Checkpoints | None = None
        self._commits = 0
        self._held_for_fork: list[threading.RLock] = []
        self._is_inherited = False  # from a parent process: not to be touched
        self.writer()

    def writer(self) -> sqlite3.Connection:
        """The connection that writes; it was closed if the process has forked since its last use."""
        with self._lock:
            if self._writer is None:
                self._writer = connect(self._path)
                self._checkpoints = None if self._path is None else Checkpoints(self._writer, self._path)
                if journal_mode(self._writer) == "wal":
                    self._disable_busy_timeout(self._writer)
            return self._writer

    def reader(self) -> sqlite3.Connection:
        """The connection that only reads (in memory: the same)."""
        if self._path is None:
            return self.writer()
        with self._reading_lock:
            if self._reader is None:
                self._reader = connect(self._path)
                self._reader.execute("PRAGMA query_only = ON")
            return self._reader

    def close(self) -> None:
        with self._reading_lock, self._lock:
            self._close_both()

    def _close_both(self) -> None:
        self._bounded.close()
        if not self._held_for_fork:
            self._versions.close()
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None

    @staticmethod
    def _disable_busy_timeout(connection: sqlite3.Connection) -> None:
        """Wait in `_begin_immediate` instead: with a write-ahead log, only BEGIN IMMEDIATE can be busy."""
        connection.execute("PRAGMA busy_timeout = 0")

    @contextmanager
    def transaction(
        self, write: bool, single: bool = False, read_seconds: float | None = None
    ) -> Iterator[SqliteTransaction]:
        if read_seconds is not None:
            with self._bounded_transaction(read_seconds) as tx:
                yield tx
            return
        with self._lock if write or self._path is None else self._reading_lock:
            connection = self.writer() if write else self.reader()
            with translated:
                if write:
                    self._begin_immediate(connection)
                else:
                    connection.execute("BEGIN")
            try:
                yield SqliteTransaction(connection, self.hooks)
                if self._is_inherited:
                    raise DatabaseUnavailable(_IN_TRANSACTION)
                with translated:
                    connection.execute("COMMIT")
            except BaseException:
                if not self._is_inherited and connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            if write:
                self._commits += 1
                if self._checkpoints is not None:
                    self._checkpoints.after_commit()

    @contextmanager
    def _bounded_transaction(self, seconds: float) -> Iterator[SqliteTransaction]:
        """A read on a connection of its own; in memory there is only one."""
        in_memory = self._path is None
        with self._lock if in_memory else nullcontext(), (
            nullcontext(self.writer()) if in_memory else self._bounded.lease()
        ) as connection:  # fmt: skip
            with translated:
                connection.execute("BEGIN")
            try:
                with time_limit(connection, seconds):
                    yield SqliteTransaction(connection, self.hooks)
            finally:
                if not self._is_inherited and connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _begin_immediate(self, connection: sqlite3.Connection) -> None:
        """Begin a write transaction as soon as no other writer is active."""
        started = time.monotonic()
        pause, longest = BEGIN_RETRY_SECONDS
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or not self._settings.may_wait(
                    started, BUSY_SECONDS
                ):
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(1.2 * pause, longest)

    def let_writers_pass(self) -> None:
        if self._path is not None:
            started = time.monotonic()
            with self.transaction(write=True):
                pass
            has_waited = time.monotonic() - started > LONG_WAIT_SECONDS
            time.sleep(PASS_SECONDS[has_waited])

    def lock_holder(self) -> LockHolder | None:
        return None if self._path is None else writer_of(self._path)

    def suspended_writer(self) -> LockHolder | None:
        return None if self._path is None else suspended_writer_of(self._path)

    def data_version(self) -> DataVersion | None:
        if self._path is None:
            return 0, self._commits
        try:
            return self._versions.read()
        except sqlite3.OperationalError:
            return None

    def listen(self) -> Listener:
        return CommitListener(lambda: self._commits) if self._path is None else SqliteListener(self._path)

    @contextmanager
    def within(self, connection: Any) -> Iterator[SqliteTransaction]:
        with callers_transaction(connection, self._path or self.writer(), self.hooks) as tx:
            yield tx

    @contextmanager
    def inspecting(self) -> Iterator[SqliteMigrationSession]:
        with self.transaction(write=False) as tx:
            yield SqliteMigrationSession(tx, self.reader())

    @contextmanager
    def migrating(self) -> Iterator[SqliteMigrationSession]:
        try:
            with self.transaction(write=True) as tx:
                yield SqliteMigrationSession(tx, self.writer())
        except Conflict as conflict:
            raise DatabaseUnavailable(
                f"the database was busy ({conflict}); nothing was written. Try again"
            ) from conflict
        if self._path is not None:
            switch_to_wal(self.writer(), self._path)
            self._disable_busy_timeout(self.writer())

    # forks ----------------------------------------------------------------------------------------------
    # SQLite keeps the locks of a file once per process, for all its connections. A child that inherits a connection
    # believes that it holds the parent's locks, and so does every connection that it opens to this file later. Even
    # closing an inherited one is not safe. So no connection to a file is open while the process forks.

    def before_fork(self) -> None:
        self._bounded.before_fork(FORK_SECONDS)
        self._versions.before_fork()
        for lock in (self._reading_lock, self._lock):
            if lock.acquire(timeout=FORK_SECONDS):
                self._held_for_fork.append(lock)
        connections = [connection for connection in (self._reader, self._writer) if connection is not None]
        is_idle = len(self._held_for_fork) == 2 and not any(connection.in_transaction for connection in connections)
        if is_idle and self._path is not None:
            self._close_both()

    def after_fork_in_parent(self) -> None:
        held, self._held_for_fork = self._held_for_fork, []
        for lock in held:
            lock.release()
        self._bounded.after_fork()
        self._versions.after_fork()

    def after_fork_in_child(self) -> str | None:
        if self._reader is None and self._writer is None:
            return None
        self._is_inherited = True
        _inherited.append(self)
        return _IN_MEMORY if self._path is None else _IN_TRANSACTION


_inherited: Final[list[SqliteConnections]] = []  # kept, because the end of the object would close its connections


class SqliteMigrationSession(MigrationSession):
    def __init__(self, tx: SqliteTransaction, connection: sqlite3.Connection) -> None:
        super().__init__(tx)
        self._connection = connection

    def tables(self) -> set[str]:
        return table_names(self._connection)

    def run_script(self, script: str) -> None:
        # Not `executescript`: it would commit the open transaction first.
        statement = ""
        for line in script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self._connection.execute(statement)
                statement = ""
