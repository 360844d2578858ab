"""Wake-ups on PostgreSQL: LISTEN on a separate connection. A hint only: behind a pooler it may never arrive."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any, Final

import psycopg
from psycopg import sql

from stepwell.store.postgres.connecting import CONNECT_SECONDS, ServerConnection
from stepwell.store.wake import ANY_WAKE, Listener, Wake

RECONNECT_SECONDS: Final = 5.0

_LOGGER: Final = logging.getLogger("stepwell.postgres")


class PostgresListener(Listener):
    """After its connection was lost it reports every wake-up, because it may have missed some."""

    is_precise = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None
        self._next_try = 0.0
        self._connect()

    def _connect(self) -> None:
        self._next_try = time.monotonic() + RECONNECT_SECONDS
        try:
            connection = ServerConnection.connect(
                self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, prepare_threshold=None
            )
            connection.execute("SELECT set_config('application_name', 'stepwell listener', false)")
            row = connection.execute("SELECT current_schema()").fetchone()
            assert row is not None
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(f"stepwell:{row[0]}")))
        except psycopg.Error as error:
            _LOGGER.warning("cannot listen (%s); polling instead", error)
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
            payloads = [notice.payload for notice in self._connection.notifies(timeout=0)]
        except psycopg.Error:
            self._connection.close()
            self._connection = None
            return ANY_WAKE
        return {Wake(payload) for payload in payloads if payload in ANY_WAKE}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
