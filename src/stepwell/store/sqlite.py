"""SQLite: one file, two connections per process, each guarded by a lock: one writes, and nobody who reads waits for it.

WAL with `synchronous=FULL` (an acknowledged commit survives a power cut), `BEGIN IMMEDIATE` for every write, and
no automatic checkpoints: the versions before 3.51.3 can corrupt a WAL file when one connection checkpoints while
another writes. `RESTART` keeps writers out while it works, so it is the only kind that is used.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from stepwell.model.clock import Clock
from stepwell.model.errors import DatabaseUnavailable, IllegalTransition, SchemaError, StepwellError
from stepwell.store.database import Conflict, Database, MigrationSession, Row, Transaction
from stepwell.store.listener import CommitListener, Listener, SqliteListener, Wake
from stepwell.store.wal import is_longer_than, log_of

T = TypeVar("T")

OLDEST_VERSION: Final = (3, 35, 0)  # RETURNING
BUSY_SECONDS: Final = 10.0
# How long a writer sleeps before it asks again whether it is its turn: at first, and after a while. SQLite itself would
# sleep for up to a tenth of a second, and whoever asks more often would always be first.
BEGIN_RETRY_SECONDS: Final = (0.0003, 0.005)
# A checkpoint well before the 1,000 pages at which SQLite would make one by itself.
CHECKPOINT_PAGES: Final = 500
# What stays of the log after a checkpoint, to be written over: then a commit need not make the file longer, which costs
# it as much again.
KEPT_BYTES: Final = 1_000 * 4096
# After a checkpoint that waited in vain for somebody who reads, there is none for so many times as long.
CHECKPOINT_PATIENCE: Final = 6.0
# A statement that fires triggers keeps a journal of its own, so one row at a time is slow: measured 32 µs for a step,
# and 9 µs in statements of 100 rows. With at most 40 columns this stays far below SQLite's 32,766 parameters.
ROWS_PER_INSERT: Final = 100

_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(list[list[Any]])

BATCH_BITS: Final = 48  # of the number that tells the steps that one statement has changed

_TIME_COLUMNS: Final = ("_at", "_after", "_deadline", "_until", "_completed")


def to_text(moment: datetime) -> str:
    """The stored form of a moment: UTC, microseconds, sorts as text, and SQLite's own date functions read it."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def from_text(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _adapt(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: to_text(v) if isinstance(v, datetime) else v for name, v in parameters.items()}


def _rows(cursor: sqlite3.Cursor) -> list[Row]:
    if cursor.description is None:
        return []
    names = [column[0] for column in cursor.description]
    rows: list[Row] = [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
    for name in names:
        if name.endswith(_TIME_COLUMNS) or name == "at":
            for row in rows:
                if isinstance(row[name], str):
                    row[name] = from_text(row[name])
    return rows


@cache
def one_by_one(sql: str) -> list[str]:
    """The statements under a name: one after the other they do what one would do on PostgreSQL."""
    return sql.rstrip().removesuffix(";").split(";\n")


_UNUSABLE: Final = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
)


class _Translation:
    """Turns what SQLite says into our own errors. Not a generator: it stands around every statement."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.IntegrityError) and "illegal transition" in str(error):
            raise IllegalTransition(f"{error}: the transition table does not allow it; nothing changed") from error
        if isinstance(error, sqlite3.OperationalError):
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise Conflict(str(error)) from error
            if code in _UNUSABLE:
                raise DatabaseUnavailable(
                    f"SQLite says «{error}»; nothing was written, and the file is intact"
                ) from error


_translated: Final = _Translation()


class SqliteTransaction(Transaction):
    def __init__(self, connection: sqlite3.Connection, sql: dict[str, str]) -> None:
        super().__init__(sql)
        self._connection = connection

    def rows(self, statement: str, **parameters: Any) -> list[Row]:
        with _translated:
            return self._fetch(*self._execute_all_but_the_last(statement, parameters))

    def records(self, kind: Callable[..., T], statement: str, **parameters: Any) -> list[T]:
        # The driver lets go of the interpreter for every row that it reads, and beside threads that compute it may have
        # to wait each time until it is given back (measured: 31 ms for 256 rows, 5 ms for the same in one value). So
        # such a statement gives all its rows in one JSON array.
        with _translated:
            ((text,),) = self._connection.execute(*self._execute_all_but_the_last(statement, parameters)).fetchall()
        return [kind(*values) for values in _decoder.decode(text)]

    def _execute_all_but_the_last(self, statement: str, parameters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Execute what stands under a name up to its last statement; gives that one with its parameters."""
        *first, last = one_by_one(self._sql[statement])
        parameters = _adapt(parameters)
        if first:
            parameters["batch"] = random.getrandbits(BATCH_BITS)  # for those who ask for it
        for text in first:
            self._connection.execute(text, parameters)
        return last, parameters

    def fetch(self, sql: str, parameters: dict[str, Any]) -> list[Row]:
        with _translated:
            return self._fetch(sql, _adapt(parameters))

    def _fetch(self, sql: str, parameters: dict[str, Any]) -> list[Row]:
        return _rows(self._connection.execute(sql, parameters))

    def _change(self, sql: str, parameters: dict[str, Any]) -> int:
        with _translated:
            changed = self._connection.execute(sql, _adapt(parameters)).rowcount
            if changed >= 0:
                return changed
            # The driver does not count for statements that begin with WITH; SQLite does.
            (changed,) = self._connection.execute("SELECT changes()").fetchone()
            return int(changed)

    def tell(self, news: Wake) -> None:
        pass  # those who listen see by themselves that there was a commit

    def array(self, values: Sequence[Any]) -> str:
        return json.dumps(values)  # which takes kinds of str and int, too

    def columns(self, ids: Sequence[int], **columns: Sequence[Any]) -> dict[str, Any]:
        # Row by row, as `said`: what stands together is found at once.
        rows = list(zip(ids, *columns.values(), strict=True))
        return {"ids": self.array(ids), "said": _encode(rows).decode()}

    def moment(self, when: datetime) -> str:
        return to_text(when)

    def numbers(self, statement: str, count: int) -> Sequence[int]:
        # Nobody else writes meanwhile, so they are consecutive and the last one says it all.
        last: int = self.value(statement, count=count)
        return range(last - count + 1, last + 1)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        names = ", ".join(f'"{column}"' for column in columns)
        marks = f"({', '.join('?' * len(columns))})"
        rows = iter(rows)
        with _translated:
            while batch := list(islice(rows, ROWS_PER_INSERT)):
                statement = f"INSERT INTO {table} ({names}) VALUES {', '.join([marks] * len(batch))}"
                self._connection.execute(statement, list(chain.from_iterable(batch)))


class _CallersTransaction(SqliteTransaction):
    """On a connection that may read rows and texts in a way of its own."""

    def _fetch(self, sql: str, parameters: dict[str, Any]) -> list[Row]:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        factory = self._connection.text_factory
        self._connection.text_factory = str
        try:
            return _rows(cursor.execute(sql, parameters))
        finally:
            self._connection.text_factory = factory


class SqliteMigrationSession(MigrationSession):
    def __init__(self, tx: SqliteTransaction, connection: sqlite3.Connection) -> None:
        super().__init__(tx)
        self._connection = connection

    def tables(self) -> set[str]:
        found = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in found}

    def run_script(self, script: str) -> None:
        # Not `executescript`: it would commit the open transaction first.
        statement = ""
        for line in script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self._connection.execute(statement)
                statement = ""


class SqliteDatabase(Database):
    dialect = "sqlite"

    def __init__(self, url: str, clock: Clock) -> None:
        super().__init__(url, clock)
        if sqlite3.sqlite_version_info < OLDEST_VERSION:
            oldest = ".".join(map(str, OLDEST_VERSION))
            raise SchemaError(
                f"Python is linked with SQLite {sqlite3.sqlite_version}; Stepwell needs {oldest} or newer"
            )
        path = path_of(url)
        # As SQLite itself names the files beside it; and wherever the program goes from here.
        self._path = None if path is None else path.resolve()
        self.is_shared = self._path is not None
        self._lock = threading.RLock()
        self._connection = self._connect()
        if _journal_mode(self._connection) == "wal":
            self._wait_without_sqlite()
        self._reading_lock = threading.RLock()
        self._reader: sqlite3.Connection | None = None
        self._next_checkpoint = 0.0
        self._changes = 0
        self._pid = os.getpid()
        self._commits = 0

    def _connect(self) -> sqlite3.Connection:
        target = ":memory:" if self._path is None else str(self._path)
        try:
            connection = sqlite3.connect(target, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        except sqlite3.OperationalError as error:
            raise DatabaseUnavailable(f"cannot open {target}: {error}; does its folder exist?") from error
        try:
            # A file with tables of somebody else may be refused yet, and the switch is written into it.
            if self._path is not None and not _holds_only_others(connection):
                self._switch_to_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute(f"PRAGMA journal_size_limit = {KEPT_BYTES}")
            connection.execute("PRAGMA foreign_keys = ON")
            # A statement that changes many rows keeps what it may have to undo: not in a file for each of them.
            connection.execute("PRAGMA temp_store = MEMORY")
            # Every access path is meant to be an index that is there. With statistics (ANALYZE) SQLite would rather
            # read all of `steps` to build one of its own for a single statement.
            connection.execute("PRAGMA automatic_index = OFF")
        except sqlite3.OperationalError as error:
            connection.close()
            raise DatabaseUnavailable(f"cannot use {target}: {error}; nothing was written") from error
        except sqlite3.DatabaseError as error:
            connection.close()
            raise SchemaError(
                f"{target} is not a database that SQLite can read ({error}); it was left as it is"
            ) from error
        return connection

    def _switch_to_wal(self, connection: sqlite3.Connection) -> None:
        # SQLite answers BUSY at once, without its busy timeout, while another process makes the same switch.
        deadline = time.monotonic() + BUSY_SECONDS
        while _journal_mode(connection) != "wal":
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                if mode != "wal":
                    raise DatabaseUnavailable(
                        f"{self._path} cannot have a write-ahead log (SQLite stays with «{mode}»): "
                        "put it on a local disk; nothing was written"
                    )

    def _wait_without_sqlite(self) -> None:
        """From now on it waits by itself: with a write-ahead log, only who begins to write finds others in the way."""
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
            with _translated:
                if write:
                    self._begin_immediate()
                else:
                    connection.execute("BEGIN")
            try:
                yield SqliteTransaction(connection, self.sql)
                with _translated:
                    connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            if write:
                self._commits += 1
                self._checkpoint_if_long()

    def _reading_connection(self) -> sqlite3.Connection:
        with self._reading_lock:
            if self._reader is None:
                self._reader = self._connect()
                self._reader.execute("PRAGMA query_only = ON")
            return self._reader

    def _begin_immediate(self) -> None:
        """Begin to write, as soon as nobody else does."""
        deadline = time.monotonic() + BUSY_SECONDS
        pause, longest = BEGIN_RETRY_SECONDS
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(1.2 * pause, longest)

    def _checkpoint_if_long(self) -> None:
        if self._path is None:
            return
        with suppress(OSError, sqlite3.OperationalError):
            if self._connection.total_changes == self._changes:  # nothing was written, nor is the salt a new one yet
                return
            self._changes = self._connection.total_changes
            started = time.monotonic()
            if started < self._next_checkpoint or not is_longer_than(CHECKPOINT_PAGES, log_of(self._path)):
                return
            # With the whole busy timeout: without the writers' lock, SQLite would make a PASSIVE one beside them.
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
            try:
                (is_busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            finally:
                self._connection.execute("PRAGMA busy_timeout = 0")
            if is_busy:
                now = time.monotonic()
                self._next_checkpoint = now + CHECKPOINT_PATIENCE * (now - started)

    def listen(self) -> Listener:
        return CommitListener(lambda: self._commits) if self._path is None else SqliteListener(self._path)

    def within(self, connection: Any) -> SqliteTransaction:
        if not isinstance(connection, sqlite3.Connection):
            raise TypeError(f"this Stepwell is on SQLite; it cannot use a {type(connection).__name__}")
        if not connection.in_transaction:
            if connection.isolation_level is None:
                raise StepwellError(
                    "the connection is in autocommit mode: open a transaction on it first; nothing was written"
                )
            with _translated:
                connection.execute("BEGIN IMMEDIATE")
        return _CallersTransaction(connection, self.sql)

    @contextmanager
    def migrating(self) -> Iterator[SqliteMigrationSession]:
        try:
            with self._transaction(write=True) as tx:
                yield SqliteMigrationSession(tx, self._connection)
        except Conflict as conflict:
            raise DatabaseUnavailable(
                f"another program kept the database busy ({conflict}); nothing was written: try again"
            ) from conflict
        if self._path is not None:
            self._switch_to_wal(self._connection)
            self._wait_without_sqlite()

    def close(self) -> None:
        with self._reading_lock:
            if self._reader is not None:
                self._reader.close()
        with self._lock:
            self._connection.close()


def _journal_mode(connection: sqlite3.Connection) -> str:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    return str(mode)


def _holds_only_others(connection: sqlite3.Connection) -> bool:
    """Whether there are tables, and none of them is Stepwell's."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return bool(tables) and "steps_migrations" not in tables


def path_of(url: str) -> Path | None:
    """The file of `sqlite:///relative.db` or `sqlite:////absolute.db`; None for `sqlite://` (in memory)."""
    rest = url.removeprefix("sqlite:").removeprefix("//")
    if rest in ("", "/", ":memory:", "/:memory:"):
        return None
    return Path(rest.removeprefix("/")) if url.startswith("sqlite:///") else Path(rest)
