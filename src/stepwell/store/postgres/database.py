"""PostgreSQL: a small pool of psycopg connections, READ COMMITTED, no session locks.

Nothing that must hold outlives a transaction, so it works behind pgbouncer in transaction mode: prepared statements
are given up where they turn out not to work, and LISTEN is only a hint.
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
# Notifications make commits wait for each other (measured: 8 writers 11.3 k to 4.2 k transactions/s), so one process
# sends no more than one of a kind in this time. A worker that was woken looks again after it.
NOTIFY_INTERVAL_SECONDS: Final = 0.005
# A statement is prepared when it is used again on a connection: planning a claim takes longer than running it.
PREPARE_AFTER: Final = 1
PREPARED_MAX: Final = 300  # more than there are statements
RESTED_SECONDS: Final = 1.0
_MIGRATION_LOCK: Final = 0x57E9_3E11  # any number will do, as long as it is ours

_LOGGER: Final = logging.getLogger("stepwell.postgres")

# What a pooler in transaction mode makes of prepared statements: they are on another connection, or already there.
_NOT_PREPARED: Final = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)


def _check_if_rested(connection: psycopg.Connection[Any]) -> None:
    """One that was used a moment ago is not asked whether it is alive: that would cost a round trip each time."""
    now = time.monotonic()
    if now - getattr(connection, "stepwell_used_at", 0.0) > RESTED_SECONDS:
        psycopg_pool.ConnectionPool.check_connection(connection)
    connection.stepwell_used_at = now  # type: ignore[attr-defined]


class PostgresDatabase(Database):
    dialect = "postgres"

    def __init__(self, url: str, clock: Clock, prepare: Callable[[Any], None] | None = None) -> None:
        super().__init__(url, clock, prepare)
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
        self._reading = (schema.database_time(tx).astimezone(UTC), elapsed)
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
            check=_check_if_rested,
            open=True,
        )

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        connection.prepared_max = PREPARED_MAX
        read_as_text(connection)
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
        with translated, self._preparing(), self._pool.connection() as connection:
            if not self._prepares:
                connection.prepare_threshold = None
            tx = PostgresTransaction(connection, self.hooks, self._should_send)
            try:
                if isinstance(self.clock, SystemClock) and self._read_clock(tx):
                    connection.rollback()  # whoever holds one snapshot has to say so before anything else
                connection.autocommit = single
                yield tx
                tx.send_wakes()
            except BaseException as error:
                self._sent_at.clear()  # the wake-ups of this one did not arrive
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
            _LOGGER.warning("prepared statements do not work here (%s); continuing without them", error)
            raise Conflict(str(error)) from error

    def _should_send(self, wake: Wake) -> bool:
        """Whether sending it again would help anybody: see `NOTIFY_INTERVAL_SECONDS`."""
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
