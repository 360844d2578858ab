"""Wake-ups on PostgreSQL: LISTEN on a separate connection. A hint only: behind a pooler it may never arrive.

A connection whose network was cut looks idle, not broken. So the listener sends itself a notification at intervals: if
one has not arrived when the next is due, the connection is replaced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from stepwell.store.forks import abandon_socket, survive_forks
from stepwell.store.postgres import bounds
from stepwell.store.postgres.connecting import CONNECT_SECONDS, ServerConnection
from stepwell.store.wake import ANY_WAKE, Listener, Wake

RECONNECT_SECONDS: Final = 5.0
# Polling finds everything within a second, so this only limits how long a system is slower than it could be.
PING_SECONDS: Final = 10.0
PING: Final = "ping"

_LOGGER: Final = logging.getLogger("stepwell.postgres")


class PostgresListener(Listener):
    """After its connection was lost it reports every wake-up, because it may have missed some."""

    is_precise = True

    def __init__(self, address: str, schema: str | None) -> None:
        self._address = address
        self._schema = schema
        self._connection: psycopg.Connection[Any] | None = None
        self._next_try = 0.0
        survive_forks(self)
        self._connect()

    def _connect(self) -> None:
        self._next_try = time.monotonic() + RECONNECT_SECONDS
        try:
            connection = ServerConnection.connect(
                self._address,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                prepare_threshold=None,
                **bounds.socket_options(self._address, PING_SECONDS),
            )
            connection.execute("SELECT set_config('application_name', 'stepwell listener', false)")
            names = "SELECT left('stepwell:' || coalesce(%s, current_schema()), 63), pg_backend_pid()"
            row = connection.execute(names, (self._schema,)).fetchone()
            assert row is not None
            own_channel = sql.Identifier(f"stepwell listener {row[1]}")
            for channel in (sql.Identifier(row[0]), own_channel):
                connection.execute(sql.SQL("LISTEN {}").format(channel))
        except psycopg.Error as error:
            _LOGGER.warning("cannot listen (%s); polling instead", error)
            return
        self._connection = connection
        self._ping = sql.SQL("NOTIFY {}, {}").format(own_channel, PING).as_bytes(connection)
        # A pooler in transaction mode gives the next statement another session: what it sends does not come back here.
        self._is_pooled = row[1] != connection.info.backend_pid
        self._was_heard, self._next_ping = True, time.monotonic()

    def fileno(self) -> int:
        return -1 if self._connection is None else self._connection.fileno()

    def poll_wakes(self) -> Collection[Wake]:
        if self._connection is None:
            if time.monotonic() < self._next_try:
                return ()
            self._connect()
            return ANY_WAKE
        try:
            payloads = self._received(self._connection)
            if PING in payloads:
                self._was_heard = True
            if time.monotonic() >= self._next_ping and not self._is_pooled:
                self._send_ping(self._connection)
        except psycopg.Error as error:
            _LOGGER.warning("the connection for wake-ups was lost (%s); polling until it is replaced", error)
            self.close()
            return ANY_WAKE
        return {Wake(payload) for payload in payloads if payload in ANY_WAKE}

    def _received(self, connection: psycopg.Connection[Any]) -> set[str]:
        """What has arrived, without waiting: neither for a notification nor for the response to a ping."""
        server = connection.pgconn
        server.consume_input()
        while server.transaction_status == TransactionStatus.ACTIVE and not server.is_busy():
            server.get_result()
        payloads = set()
        while (notice := server.notifies()) is not None:
            payloads.add(notice.extra.decode())
        return payloads

    def _send_ping(self, connection: psycopg.Connection[Any]) -> None:
        if not self._was_heard:
            raise psycopg.OperationalError(f"no response for {PING_SECONDS:g} s")
        connection.pgconn.send_query(self._ping)
        connection.pgconn.flush()
        self._was_heard, self._next_ping = False, time.monotonic() + PING_SECONDS

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def before_fork(self) -> None:
        pass

    def after_fork_in_parent(self) -> None:
        pass

    def after_fork_in_child(self) -> None:
        inherited, self._connection = self._connection, None
        if inherited is not None and not inherited.closed:
            abandon_socket(inherited.fileno())
