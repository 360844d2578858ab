"""SQLite: one file, two connections per process, each guarded by a lock; reads never wait for the one that writes."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from stepwell.model.clock import Clock
from stepwell.model.errors import DatabaseBusy, DatabaseUnavailable, StepwellError
from stepwell.store.conflict import Conflict
from stepwell.store.database import Database, MigrationSession
from stepwell.store.sqlite.checkpoints import Checkpoints
from stepwell.store.sqlite.connection import (
    BUSY_SECONDS,
    connect,
    journal_mode,
    path_of,
    reject_old_sqlite,
    switch_to_wal,
    table_names,
)
from stepwell.store.sqlite.listener import CommitListener, SqliteListener
from stepwell.store.sqlite.transaction import CallersTransaction, SqliteTransaction, translated
from stepwell.store.wake import Listener

# The first and the longest pause before a writer tries to begin again. SQLite's own busy handler sleeps up to a tenth
# of a second, so a process that retries more often would always get the lock first.
BEGIN_RETRY_SECONDS: Final = (0.0003, 0.005)


# Writers that wait retry within five milliseconds. After a long wait, one may just have given up, and retries a little
# later (`RETRY_SECONDS` of a heartbeat).
LONG_WAIT_SECONDS: Final = 0.1
PASS_SECONDS: Final = (0.02, 0.5)


class SqliteDatabase(Database):
    dialect = "sqlite"

    def __init__(self, url: str, clock: Clock, prepare: Callable[[Any], None] | None = None) -> None:
        super().__init__(url, clock, prepare)
        reject_old_sqlite()
        path = path_of(url)
        # Resolved, as SQLite does for the names of its side files, and so that a change of directory does not matter.
        self._path = None if path is None else path.resolve()
        self.is_shared = self._path is not None
        self._lock = threading.RLock()
        self._reading_lock = threading.RLock()
        self._reader: sqlite3.Connection | None = None
        self._commits = 0

    def _connect(self) -> None:
        self._pid = os.getpid()
        self._connection = connect(self._path)
        self._checkpoints = None if self._path is None else Checkpoints(self._connection, self._path)
        if journal_mode(self._connection) == "wal":
            self._disable_busy_timeout()

    def _disconnect(self) -> None:
        with self._reading_lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
        with self._lock:
            self._connection.close()

    def _disable_busy_timeout(self) -> None:
        """Wait in `_begin_immediate` instead: with a write-ahead log, only BEGIN IMMEDIATE can be busy."""
        self._connection.execute("PRAGMA busy_timeout = 0")

    @contextmanager
    def _transaction(self, write: bool, single: bool = False) -> Iterator[SqliteTransaction]:
        if os.getpid() != self._pid:
            raise DatabaseUnavailable("this Stepwell was opened before a fork; open a new one in the child process")
        if write or not self.is_shared:
            lock, connection = self._lock, self._connection
        else:
            lock, connection = self._reading_lock, self._reading_connection()
        with lock:
            with translated:
                if write:
                    self._begin_immediate()
                else:
                    connection.execute("BEGIN")
            try:
                yield SqliteTransaction(connection, self.hooks)
                with translated:
                    connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            if write:
                self._commits += 1
                if self._checkpoints is not None:
                    self._checkpoints.after_commit()

    def _reading_connection(self) -> sqlite3.Connection:
        with self._reading_lock:
            if self._reader is None:
                self._reader = connect(self._path)
                self._reader.execute("PRAGMA query_only = ON")
            return self._reader

    def _begin_immediate(self) -> None:
        """Begin a write transaction as soon as no other writer is active."""
        started = time.monotonic()
        pause, longest = BEGIN_RETRY_SECONDS
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or not self._may_wait(started, BUSY_SECONDS):
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(1.2 * pause, longest)

    def let_writers_pass(self) -> None:
        if self._path is not None:
            started = time.monotonic()
            self.transact(lambda tx: None)
            has_waited = time.monotonic() - started > LONG_WAIT_SECONDS
            time.sleep(PASS_SECONDS[has_waited])

    def listen(self) -> Listener:
        self.open()
        return CommitListener(lambda: self._commits) if self._path is None else SqliteListener(self._path)

    def within(self, connection: Any) -> SqliteTransaction:
        try:
            self.open()
        except DatabaseUnavailable as error:
            raise DatabaseBusy(
                f"{error}. If your own transaction blocks the creation of the schema, call `app.open()` before it"
            ) from error
        if not isinstance(connection, sqlite3.Connection):
            raise TypeError(f"this Stepwell is on SQLite; it cannot use a {type(connection).__name__}")
        if not connection.in_transaction:
            if connection.isolation_level is None:
                raise StepwellError(
                    "the connection is in autocommit mode: open a transaction on it first; nothing was written"
                )
            with translated:
                connection.execute("BEGIN IMMEDIATE")
        return CallersTransaction(connection, self.hooks)

    @contextmanager
    def inspecting(self) -> Iterator[SqliteMigrationSession]:
        self.open()
        with self._transaction(write=False) as tx:
            yield SqliteMigrationSession(tx, self._reader or self._connection)

    @contextmanager
    def migrating(self) -> Iterator[SqliteMigrationSession]:
        self.open()
        try:
            with self._transaction(write=True) as tx:
                yield SqliteMigrationSession(tx, self._connection)
        except Conflict as conflict:
            raise DatabaseUnavailable(
                f"the database was busy ({conflict}); nothing was written. Try again"
            ) from conflict
        if self._path is not None:
            switch_to_wal(self._connection, self._path)
            self._disable_busy_timeout()


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
