"""PostgreSQL: a small pool of psycopg connections, READ COMMITTED, no session locks.

Nothing that must hold outlives a transaction, so it works behind pgbouncer in transaction mode: prepared statements
are given up where they turn out not to work, and LISTEN is only a hint.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import psycopg
import psycopg_pool
from psycopg import sql
from psycopg.abc import AdaptContext
from psycopg.pq import TransactionStatus
from psycopg.rows import args_row, dict_row
from psycopg.types.string import TextLoader

from stepwell.model.clock import Clock, SystemClock
from stepwell.model.errors import DatabaseUnavailable, IllegalTransition, StepwellError
from stepwell.store.database import Conflict, Database, MigrationSession, Row, Transaction
from stepwell.store.listener import ANY_WAKE, Listener, Wake

T = TypeVar("T")

ILLEGAL_TRANSITION: Final = "ZS001"  # raised by the trigger on `steps`
CONNECT_TIMEOUT: Final = 10.0
MAX_CONNECTIONS: Final = 8
CLOCK_READING_SECONDS: Final = 30.0
# Notifications make commits wait for each other (measured: 8 writers 11.3 k to 4.2 k transactions/s), so one process
# sends no more than one of a kind in this time. Whoever was woken looks again after it: see `run.worker`.
NOTIFY_INTERVAL_SECONDS: Final = 0.005
# A statement is prepared when it is used again on a connection: planning a claim takes longer than running it.
PREPARE_AFTER: Final = 1
PREPARED_MAX: Final = 300  # more than there are statements
RECONNECT_SECONDS: Final = 5.0
RESTED_SECONDS: Final = 1.0
_MIGRATION_LOCK: Final = 0x57E9_3E11  # any number will do, as long as it is ours

_LOGGER: Final = logging.getLogger("stepwell.postgres")

_CONFLICTS: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
# What a pooler in transaction mode makes of prepared statements: they are on another connection, or already there.
_NOT_PREPARED: Final = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)
# The last one is not among the operational errors, though the server has ended the session.
_OUTAGES: Final = (
    psycopg.OperationalError,
    psycopg_pool.PoolTimeout,
    psycopg.errors.IdleInTransactionSessionTimeout,
)


class _Translation:
    """Turns what PostgreSQL says into our own errors. Not a generator: it stands around every statement."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _CONFLICTS):
            raise Conflict(str(error)) from error
        if isinstance(error, _OUTAGES):
            raise DatabaseUnavailable(
                f"PostgreSQL cannot be used ({error}); a transaction that was being committed may or may not have been"
            ) from error
        if isinstance(error, psycopg.DatabaseError) and error.sqlstate == ILLEGAL_TRANSITION:
            raise IllegalTransition(f"{error.diag.message_primary}; nothing changed") from error


_translated: Final = _Translation()


class PostgresTransaction(Transaction):
    def __init__(
        self,
        connection: psycopg.Connection[Any],
        sql: dict[str, str],
        should_send: Callable[[Wake], bool] = lambda _: True,
    ) -> None:
        super().__init__(sql)
        self._connection = connection
        self._should_send = should_send
        self.woken: set[Wake] = set()
        self.has_begun = False  # whether the server has answered to anything

    def tell(self, news: Wake) -> None:
        self.woken.add(news)

    def wakes_to_send(self, *news: Wake) -> list[str]:
        return [each.value for each in news if self._should_send(each)]

    def notify(self) -> None:
        for news in self.wakes_to_send(*sorted(self.woken)):
            self.rows("notify", news=news)

    def _cursor(self) -> psycopg.Cursor[Row]:
        return self._connection.cursor(row_factory=dict_row)

    def fetch(self, sql: str, parameters: dict[str, Any]) -> list[Row]:
        with _translated, self._cursor() as cursor:
            found = cursor.execute(sql.encode(), parameters).fetchall()
            self.has_begun = True
            return found

    def records(self, kind: Callable[..., T], statement: str, **parameters: Any) -> list[T]:
        with _translated, self._connection.cursor(row_factory=args_row(kind)) as cursor:
            found = cursor.execute(self._sql[statement].encode(), parameters).fetchall()
            self.has_begun = True
            return found

    def _change(self, sql: str, parameters: dict[str, Any]) -> int:
        with _translated, self._cursor() as cursor:
            changed = cursor.execute(sql.encode(), parameters).rowcount
            self.has_begun = True
            return changed

    def array(self, values: Sequence[Any]) -> str:
        # As a literal: the driver would look at each value by itself (measured: 1 µs each, for what takes a tenth).
        return f"{{{','.join(map(_element, values))}}}"

    def columns(self, ids: Sequence[int], **columns: Sequence[Any]) -> dict[str, Any]:
        return {name: self.array(values) for name, values in {"ids": ids, **columns}.items()}

    def moment(self, when: datetime) -> str:
        # As text, once: COPY would turn the same moment into text again for every row (measured: 3.5 µs each).
        return when.isoformat()

    def numbers(self, statement: str, count: int) -> Sequence[int]:
        found: list[int] = self.value(statement, count=count)
        return found

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        names = ", ".join(f'"{column}"' for column in columns)
        statement = f"COPY {table} ({names}) FROM STDIN".encode()
        with _translated, self._cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)


def _element(value: Any) -> str:
    """A value as it stands in the literal of an array."""
    if isinstance(value, str):
        return '"' + value.replace("\\", r"\\").replace('"', r"\"") + '"'
    return "NULL" if value is None else str(value)


def _read_as_text(context: AdaptContext) -> None:
    """Of these types, what PostgreSQL says is what is wanted."""
    context.adapters.register_loader("json", TextLoader)
    context.adapters.register_loader("uuid", TextLoader)


class _CallersTransaction(PostgresTransaction):
    """It ends when the caller says so: what is told goes on its way now, and arrives with the commit."""

    def _cursor(self) -> psycopg.Cursor[Row]:
        cursor = super()._cursor()
        _read_as_text(cursor)  # and not the connection: the caller may want to read them another way
        return cursor

    def tell(self, news: Wake) -> None:
        if news not in self.woken:
            self.woken.add(news)
            self.rows("notify", news=news.value)


class PostgresListener(Listener):
    """Listens on a connection of its own. While that is lost, everything may have been told."""

    is_precise = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None
        self._next_try = 0.0
        self._connect()

    def _connect(self) -> None:
        self._next_try = time.monotonic() + RECONNECT_SECONDS
        try:
            connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=int(CONNECT_TIMEOUT), prepare_threshold=None
            )
            connection.execute("SELECT set_config('application_name', 'stepwell ear', false)")
            row = connection.execute("SELECT current_schema()").fetchone()
            assert row is not None
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(f"stepwell:{row[0]}")))
        except psycopg.Error as error:
            _LOGGER.warning("cannot listen (%s): looking now and then instead", error)
        else:
            self._connection = connection

    def fileno(self) -> int:
        return -1 if self._connection is None else self._connection.fileno()

    def poll_wakes(self) -> Collection[Wake]:
        if self._connection is None:
            if time.monotonic() < self._next_try:
                return ()
            self._connect()
            return ANY_WAKE
        try:
            told = [notice.payload for notice in self._connection.notifies(timeout=0)]
        except psycopg.Error:
            self._connection.close()
            self._connection = None
            return ANY_WAKE
        return {Wake(payload) for payload in told if payload in ANY_WAKE}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class PostgresMigrationSession(MigrationSession):
    def __init__(self, tx: PostgresTransaction, connection: psycopg.Connection[Any]) -> None:
        super().__init__(tx)
        self._connection = connection

    def tables(self) -> set[str]:
        found = self._connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        )
        return {row[0] for row in found}

    def run_script(self, script: str) -> None:
        self._connection.execute(script.encode())


def _check_if_rested(connection: psycopg.Connection[Any]) -> None:
    """One that was used a moment ago is not asked whether it is alive: that would cost a round trip each time."""
    now = time.monotonic()
    if now - getattr(connection, "stepwell_used_at", 0.0) > RESTED_SECONDS:
        psycopg_pool.ConnectionPool.check_connection(connection)
    connection.stepwell_used_at = now  # type: ignore[attr-defined]


class PostgresDatabase(Database):
    dialect = "postgres"

    def __init__(self, url: str, clock: Clock) -> None:
        super().__init__(url, clock)
        self._pool = self._open_pool()
        self._pid = os.getpid()
        self._reading: tuple[datetime, float] | None = None
        self._prepares = True
        self._sent_at: dict[Wake, float] = {}

    def now(self) -> datetime:
        """The database's clock, read now and then and carried on by the monotonic one: machines need not agree."""
        if not isinstance(self.clock, SystemClock):
            return self.clock.now()
        if self._reading is None:
            self.read(lambda tx: None)  # opening a transaction reads the clock
        assert self._reading is not None
        moment, elapsed = self._reading
        return moment + timedelta(seconds=self.clock.monotonic() - elapsed)

    def _read_clock(self, tx: PostgresTransaction) -> bool:
        """Before a transaction, so that nobody inside one needs a second connection to learn the time."""
        elapsed = self.clock.monotonic()
        if self._reading is not None and elapsed - self._reading[1] <= CLOCK_READING_SECONDS:
            return False
        self._reading = (tx.value("database_time").astimezone(UTC), elapsed)
        return True

    def _open_pool(self) -> psycopg_pool.ConnectionPool[psycopg.Connection[Any]]:
        return psycopg_pool.ConnectionPool(
            self.url,
            min_size=0,
            max_size=MAX_CONNECTIONS,
            timeout=CONNECT_TIMEOUT,
            kwargs={"prepare_threshold": PREPARE_AFTER, "connect_timeout": int(CONNECT_TIMEOUT)},
            configure=self._configure,
            check=_check_if_rested,
            open=True,
        )

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        connection.prepared_max = PREPARED_MAX
        _read_as_text(connection)
        self._look_for_a_pooler(connection)

    def _look_for_a_pooler(self, connection: psycopg.Connection[Any]) -> None:
        """Behind one, the name of a prepared statement may mean another program's on the next session of the server.

        With luck that is an error (see `_preparing`); without, the wrong statement runs. A pooler gives its clients a
        process id of its own making.
        """
        row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
        connection.rollback()
        if row is not None and row[0] != connection.info.backend_pid:
            connection.prepare_threshold = None

    @contextmanager
    def _transaction(self, write: bool, single: bool = False) -> Iterator[PostgresTransaction]:
        if os.getpid() != self._pid:
            raise DatabaseUnavailable("this Stepwell was opened before a fork; open a new one in the child process")
        with _translated, self._preparing(), self._pool.connection() as connection:
            if not self._prepares:
                connection.prepare_threshold = None
            tx = PostgresTransaction(connection, self.sql, self._should_send)
            try:
                if isinstance(self.clock, SystemClock) and self._read_clock(tx):
                    connection.rollback()  # whoever holds one snapshot has to say so before anything else
                connection.autocommit = single
                yield tx
                tx.notify()
            except BaseException as error:
                self._sent_at.clear()  # what this one told did not arrive
                # It was dead when we got it: another one may not be.
                if isinstance(error, DatabaseUnavailable) and connection.closed and not tx.has_begun:
                    raise Conflict(str(error)) from error
                raise
            finally:
                if single and not connection.closed:
                    connection.autocommit = False

    @contextmanager
    def _preparing(self) -> Iterator[None]:
        try:
            yield
        except _NOT_PREPARED as error:
            if not self._prepares:
                raise
            self._prepares = False
            _LOGGER.warning("prepared statements do not work here (%s): going on without them", error)
            raise Conflict(str(error)) from error

    def _should_send(self, news: Wake) -> bool:
        """Whether there is a point in telling it again: see `NOTIFY_INTERVAL_SECONDS`."""
        elapsed = self.clock.monotonic()
        if elapsed - self._sent_at.get(news, -1.0) <= NOTIFY_INTERVAL_SECONDS:
            return False
        self._sent_at[news] = elapsed
        return True

    def listen(self) -> Listener:
        return PostgresListener(self.url)

    def within(self, connection: Any) -> PostgresTransaction:
        if not isinstance(connection, psycopg.Connection):
            raise TypeError(f"this Stepwell is on PostgreSQL; it cannot use a {type(connection).__name__}")
        if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
            raise StepwellError(
                "the connection is in autocommit mode: open a transaction on it first; nothing was written"
            )
        return _CallersTransaction(connection, self.sql)

    @contextmanager
    def migrating(self) -> Iterator[PostgresMigrationSession]:
        with _translated, self._pool.connection() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            yield PostgresMigrationSession(PostgresTransaction(connection, self.sql), connection)

    def close(self) -> None:
        self._pool.close()
