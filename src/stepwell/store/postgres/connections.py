"""PostgreSQL: a small pool of psycopg connections, READ COMMITTED, no session locks.

Correctness never depends on session state, so it works behind pgbouncer in transaction mode: prepared statements are
turned off where they fail, and LISTEN is only a hint.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from weakref import WeakSet

import psycopg
import psycopg_pool

from stepwell.model.clock import SystemClock, since_boot
from stepwell.model.errors import DatabaseUnavailable
from stepwell.store.conflict import Conflict, Suspended
from stepwell.store.connections import Connections, Settings
from stepwell.store.engine import schema
from stepwell.store.forks import abandon_socket
from stepwell.store.postgres import bounds
from stepwell.store.postgres.callers import callers_transaction
from stepwell.store.postgres.connecting import CONNECT_SECONDS, ServerConnection, check_server, unreachable
from stepwell.store.postgres.listener import PostgresListener
from stepwell.store.postgres.migration_session import PostgresMigrationSession
from stepwell.store.postgres.namespace import split_url
from stepwell.store.postgres.pool import WarmestFirst
from stepwell.store.postgres.transaction import PostgresTransaction, read_as_text, translated, translated_look
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Listener, Wake

CONNECT_TIMEOUT: Final = 10.0  # a restart of the server is shorter: work that waits for a connection survives it
MAX_CONNECTIONS: Final = 8
CLOCK_READING_SECONDS: Final = 30.0
# A reading that took longer (the machine is busy, or this process was suspended meanwhile) is repeated soon: until then
# the time may be behind by as much, and a heartbeat would look old.
PROMPT_SECONDS: Final = 0.01
CLOCK_RETRY_SECONDS: Final = 0.5
# NOTIFY serializes commits (measured with 8 writers: 11.3 k transactions/s without it, 4.2 k with it), so a process
# sends each wake-up at most once in this interval. A worker that was woken polls once more after it.
NOTIFY_INTERVAL_SECONDS: Final = 0.005
# A statement is prepared on its first use on a connection: planning a claim takes longer than running it.
PREPARE_AFTER: Final = 0
PREPARED_MAX: Final = 300  # more than there are statements
IDLE_CHECK_SECONDS: Final = 1.0

_LOGGER: Final = logging.getLogger("stepwell.postgres")

# Behind a pooler in transaction mode, a prepared statement may be missing on this connection, or exist already.
_NOT_PREPARED: Final = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)


def _check_if_idle(connection: psycopg.Connection[Any]) -> None:
    """Check a connection before use only if it was idle for a while: each check costs a round trip."""
    now = time.monotonic()
    if now - getattr(connection, "stepwell_used_at", 0.0) > IDLE_CHECK_SECONDS:
        psycopg_pool.ConnectionPool.check_connection(connection)
    connection.stepwell_used_at = now  # type: ignore[attr-defined]


def _at(reading: tuple[datetime, float], elapsed: float) -> datetime:
    """The server's time at another moment than that of the reading."""
    time, read = reading
    return time + timedelta(seconds=elapsed - read)


class PostgresConnections(Connections):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._address, self._namespace = split_url(settings.url)
        self._has_server_clock = isinstance(self.clock, SystemClock)
        self._reading: tuple[datetime, float] | None = None
        self._next_reading = 0.0
        self._prepares = True
        self._sent_at: dict[Wake, float] = {}
        self._identity: schema.Identity | None = None
        self._sessions: WeakSet[psycopg.Connection[Any]] = WeakSet()  # also those that a thread uses right now
        self._failures: deque[str] = deque(maxlen=1)  # why the pool cannot connect
        check_server(self._address)
        self._pool = WarmestFirst(
            self._address,
            connection_class=ServerConnection,
            min_size=0,
            max_size=settings.max_connections or MAX_CONNECTIONS,
            timeout=CONNECT_TIMEOUT,
            kwargs={
                "autocommit": True,  # transactions are begun with their bounds
                "prepare_threshold": PREPARE_AFTER,
                "connect_timeout": CONNECT_SECONDS,
                "failures": self._failures,
                **bounds.socket_options(self._address, self._idle_seconds),
            },
            configure=self._configure,
            check=_check_if_idle,
            open=True,
        )

    def now(self) -> datetime:
        """The server's clock, read every 30 s and advanced by the time since boot: machines need not be in sync."""
        if not self._has_server_clock:
            return self.clock.now()
        if self._reading is None:
            with self.transaction(write=False):
                pass  # it reads the clock
        assert self._reading is not None
        return _at(self._reading, since_boot())

    def exact_now(self, tx: Transaction) -> datetime:
        return schema.database_time(tx).astimezone(UTC) if self._has_server_clock else self.clock.now()

    def _read_clock(self, tx: PostgresTransaction) -> None:
        """Read the server's clock before a transaction: inside one, it would take a second connection."""
        asked = since_boot()
        if self._reading is None or asked >= self._next_reading:
            time = schema.database_time(tx).astimezone(UTC)
            # The time after the answer, so that `now` is never ahead of the server: what it reads is already past.
            answered = since_boot()
            if self._reading is None or not time <= _at(self._reading, answered) <= _at((time, asked), answered):
                self._reading = time, answered  # else the last reading was at least as prompt
            is_prompt = answered - asked <= PROMPT_SECONDS
            self._next_reading = answered + (CLOCK_READING_SECONDS if is_prompt else CLOCK_RETRY_SECONDS)

    @property
    def _idle_seconds(self) -> float:
        return self._settings.idle_seconds() or bounds.idle_seconds(self._settings.lease_seconds())

    @contextmanager
    def _pooled(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool. The pool waits for the server, but does not report why it cannot connect."""
        self._failures.clear()
        taken: psycopg.Connection[Any] | None = None
        try:
            with self._pool.connection() as taken:
                yield taken
        except psycopg_pool.PoolTimeout as error:
            if self._failures:
                raise unreachable(self._address, self._failures[-1]) from error
            raise DatabaseUnavailable(
                f"all {self._pool.max_size} connections to PostgreSQL were in use for {CONNECT_TIMEOUT:g} s; nothing "
                "was written. Look for long transactions, or raise max_connections"
            ) from error
        except (psycopg.OperationalError, DatabaseUnavailable) as error:
            if isinstance(taken, ServerConnection) and taken.was_idle_too_long:
                raise Suspended(str(error)) from error
            raise

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        self._sessions.add(connection)
        connection.prepared_max = PREPARED_MAX
        read_as_text(connection)
        if not self._has_server_clock:
            connection.execute("SELECT set_config('stepwell.clock', 'injected', false)")  # see `_TIME_OF_SERVER`
        self._detect_pooler(connection)

    def _detect_pooler(self, connection: psycopg.Connection[Any]) -> None:
        """Turn prepared statements off behind a pooler, where a name may refer to another client's statement.

        That usually raises an error (see `_preparing`), but the wrong statement could also run. A pooler reports a
        process id that is not that of the server process.
        """
        row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
        if row is not None and row[0] != connection.info.backend_pid:
            connection.prepare_threshold = None

    @contextmanager
    def transaction(
        self, write: bool, single: bool = False, read_seconds: float | None = None
    ) -> Iterator[PostgresTransaction]:
        translating = translated if read_seconds is None else translated_look
        with translating, self._preparing(), self._pooled() as connection:
            if not self._prepares:
                connection.prepare_threshold = None
            tx = PostgresTransaction(connection, self.hooks, self._should_send, self._namespace, translating)
            try:
                if self._has_server_clock:
                    self._read_clock(tx)
                    tx.has_begun = False
                if read_seconds is not None:
                    with translating:
                        connection.execute(bounds.begin_reading(self._idle_seconds, read_seconds), prepare=False)
                elif not single:
                    with translating:
                        begin = bounds.begin_writing if write else bounds.begin
                        connection.execute(begin(self._idle_seconds), prepare=False)
                yield tx
                tx.send_wakes()
            except BaseException as error:
                self._sent_at.clear()  # the wake-ups of this transaction were not sent
                # The connection was dead when we got it: try another one.
                if isinstance(error, DatabaseUnavailable) and connection.closed and not tx.has_begun:
                    raise Conflict(str(error)) from error
                raise

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
        if wake is Wake.SCHEDULES:  # rare, and a scheduler that misses it sleeps for a minute
            return True
        elapsed = self.clock.monotonic()
        if elapsed - self._sent_at.get(wake, -1.0) <= NOTIFY_INTERVAL_SECONDS:
            return False
        self._sent_at[wake] = elapsed
        return True

    def listen(self) -> Listener:
        return PostgresListener(self._address, self._namespace.schema)

    @contextmanager
    def within(self, connection: Any) -> Iterator[PostgresTransaction]:
        if self._identity is None:
            with self.transaction(write=False) as tx:
                self._identity = schema.identity(tx)
        with callers_transaction(connection, self._identity, self.hooks, self._namespace) as tx:
            yield tx

    @contextmanager
    def inspecting(self) -> Iterator[PostgresMigrationSession]:
        with translated, self._pooled() as connection, connection.transaction():
            connection.execute(bounds.of_migration(self._idle_seconds), prepare=False)
            yield PostgresMigrationSession(connection, self.hooks, self._namespace)

    @contextmanager
    def migrating(self) -> Iterator[PostgresMigrationSession]:
        with self.inspecting() as session:
            session.begin()
            yield session

    def close(self) -> None:
        self._pool.close()

    # forks ----------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        pass  # a transaction of another thread may take long, and goes on in the parent

    def after_fork_in_parent(self) -> None:
        pass

    def after_fork_in_child(self) -> None:
        self._pool._closed = True  # its threads stayed in the parent: at its end it would wait for them
        for connection in self._sessions:
            with suppress(psycopg.Error):
                abandon_socket(connection.fileno())
