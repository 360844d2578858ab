"""PostgreSQL: a small pool of psycopg connections, READ COMMITTED, no session locks.

Correctness never depends on session state, so it works behind pgbouncer in transaction mode: prepared statements are
turned off where they fail, and LISTEN is only a hint.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus

from stepwell.model.clock import Clock, SystemClock
from stepwell.model.errors import DatabaseUnavailable, StepwellError
from stepwell.store.conflict import Conflict
from stepwell.store.database import Database, MigrationSession
from stepwell.store.engine import schema
from stepwell.store.postgres.listener import PostgresListener
from stepwell.store.postgres.transaction import CallersTransaction, PostgresTransaction, read_as_text, translated
from stepwell.store.wake import Listener, Wake

CONNECT_TIMEOUT: Final = 10.0
MAX_CONNECTIONS: Final = 8
CLOCK_READING_SECONDS: Final = 30.0
# NOTIFY serializes commits (measured with 8 writers: 11.3 k transactions/s without it, 4.2 k with it), so a process
# sends each wake-up at most once in this interval. A worker that was woken polls once more after it.
NOTIFY_INTERVAL_SECONDS: Final = 0.005
# A statement is prepared on its second use on a connection: planning a claim takes longer than running it.
PREPARE_AFTER: Final = 1
PREPARED_MAX: Final = 300  # more than there are statements
IDLE_CHECK_SECONDS: Final = 1.0
_MIGRATION_LOCK: Final = 0x57E9_3E11  # an arbitrary number, unique to Stepwell

_LOGGER: Final = logging.getLogger("stepwell.postgres")

# Behind a pooler in transaction mode, a prepared statement may be missing on this connection, or exist already.
_NOT_PREPARED: Final = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)


def _check_if_idle(connection: psycopg.Connection[Any]) -> None:
    """Check a connection before use only if it was idle for a while: each check costs a round trip."""
    now = time.monotonic()
    if now - getattr(connection, "stepwell_used_at", 0.0) > IDLE_CHECK_SECONDS:
        psycopg_pool.ConnectionPool.check_connection(connection)
    connection.stepwell_used_at = now  # type: ignore[attr-defined]


class PostgresDatabase(Database):
    dialect = "postgres"

    def __init__(self, url: str, clock: Clock, prepare: Callable[[Any], None] | None = None) -> None:
        super().__init__(url, clock, prepare)
        self._reading: tuple[datetime, float] | None = None
        self._prepares = True
        self._sent_at: dict[Wake, float] = {}
        self._has_server_clock = isinstance(clock, SystemClock)

    def now(self) -> datetime:
        """The server's clock, read every 30 s and advanced by the monotonic clock: machines need not be in sync."""
        if not self._has_server_clock:
            return self.clock.now()
        if self._reading is None:
            self.read(lambda tx: None)  # opening a transaction reads the clock
        assert self._reading is not None
        server_time, elapsed = self._reading
        return server_time + timedelta(seconds=self.clock.monotonic() - elapsed)

    def _read_clock(self, tx: PostgresTransaction) -> bool:
        """Read the server's clock before a transaction: inside one, it would take a second connection."""
        elapsed = self.clock.monotonic()
        if self._reading is not None and elapsed - self._reading[1] <= CLOCK_READING_SECONDS:
            return False
        # The time after the answer, so that `now` is never ahead of the server: what it reads is already past.
        self._reading = (schema.database_time(tx).astimezone(UTC), self.clock.monotonic())
        return True

    def _connect(self) -> None:
        self._pid = os.getpid()
        self._pool: psycopg_pool.ConnectionPool[psycopg.Connection[Any]] = psycopg_pool.ConnectionPool(
            self.url,
            min_size=0,
            max_size=self.max_connections or MAX_CONNECTIONS,
            timeout=CONNECT_TIMEOUT,
            kwargs={"prepare_threshold": PREPARE_AFTER, "connect_timeout": int(CONNECT_TIMEOUT)},
            configure=self._configure,
            check=_check_if_idle,
            open=True,
        )

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        connection.prepared_max = PREPARED_MAX
        read_as_text(connection)
        if not self._has_server_clock:
            connection.execute("SELECT set_config('stepwell.clock', 'injected', false)")  # see `_TIME_OF_SERVER`
            connection.commit()
        self._detect_pooler(connection)

    def _detect_pooler(self, connection: psycopg.Connection[Any]) -> None:
        """Turn prepared statements off behind a pooler, where a name may refer to another client's statement.

        That usually raises an error (see `_preparing`), but the wrong statement could also run. A pooler reports a
        process id that is not that of the server process.
        """
        row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
        connection.rollback()
        if row is not None and row[0] != connection.info.backend_pid:
            connection.prepare_threshold = None

    @contextmanager
    def _transaction(self, write: bool, single: bool = False) -> Iterator[PostgresTransaction]:
        if os.getpid() != self._pid:
            raise DatabaseUnavailable("this Stepwell was opened before a fork; open a new one in the child process")
        with translated, self._preparing(), self._pool.connection() as connection:
            if not self._prepares:
                connection.prepare_threshold = None
            tx = PostgresTransaction(connection, self.hooks, self._should_send)
            try:
                if self._has_server_clock and self._read_clock(tx):
                    connection.rollback()  # the isolation level can only be set at the start of a transaction
                connection.autocommit = single
                yield tx
                tx.send_wakes()
            except BaseException as error:
                self._sent_at.clear()  # the wake-ups of this transaction were not sent
                # The connection was dead when we got it: try another one.
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
            _LOGGER.warning("prepared statements do not work on this connection (%s); continuing without them", error)
            raise Conflict(str(error)) from error

    def _should_send(self, wake: Wake) -> bool:
        """Whether the wake-up is due again: see `NOTIFY_INTERVAL_SECONDS`."""
        elapsed = self.clock.monotonic()
        if elapsed - self._sent_at.get(wake, -1.0) <= NOTIFY_INTERVAL_SECONDS:
            return False
        self._sent_at[wake] = elapsed
        return True

    def listen(self) -> Listener:
        return PostgresListener(self.url)

    def within(self, connection: Any) -> PostgresTransaction:
        self.open()
        if not isinstance(connection, psycopg.Connection):
            raise TypeError(f"this Stepwell is on PostgreSQL; it cannot use a {type(connection).__name__}")
        if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
            raise StepwellError(
                "the connection is in autocommit mode: open a transaction on it first; nothing was written"
            )
        return CallersTransaction(connection, self.hooks)

    @contextmanager
    def inspecting(self) -> Iterator[PostgresMigrationSession]:
        self.open()
        with translated, self._pool.connection() as connection:
            yield PostgresMigrationSession(PostgresTransaction(connection, self.hooks), connection)

    @contextmanager
    def migrating(self) -> Iterator[PostgresMigrationSession]:
        self.open()
        with translated, self._pool.connection() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            yield PostgresMigrationSession(PostgresTransaction(connection, self.hooks), connection)

    def _disconnect(self) -> None:
        self._pool.close()


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
