"""A transaction of the caller's own, on a connection of psycopg."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from stepwell.model.errors import StepwellError
from stepwell.store.callers import OTHER_DATABASE, driver_connection, no_transaction, wrong_connection
from stepwell.store.changes import ChangeHooks
from stepwell.store.engine import schema
from stepwell.store.on_loop import OnLoop
from stepwell.store.postgres.namespace import Namespace
from stepwell.store.postgres.on_loop import CursorOnLoop
from stepwell.store.postgres.transaction import PostgresTransaction, read_as_text
from stepwell.store.wake import Wake


class CallersTransaction(PostgresTransaction):
    """A transaction that the caller ends: a wake-up is sent at once, and the commit delivers it."""

    def _cursor(self, row_factory: Any) -> Any:
        # Not the caller's kind of cursor, and with loaders of our own: the connection may be configured differently.
        cursor = psycopg.Cursor(self._connection, row_factory=row_factory)
        read_as_text(cursor)
        return cursor

    def wake(self, wake: Wake) -> None:
        if wake not in self._wakes:
            self._wakes.add(wake)
            schema.notify(self, wake=wake.value)


class TransactionOnLoop(CallersTransaction):
    """The same on an async connection, from another thread than that of its event loop."""

    def __init__(self, on_loop: OnLoop, hooks: ChangeHooks, namespace: Namespace) -> None:
        super().__init__(on_loop.connection, hooks, namespace=namespace)
        self._on_loop = on_loop

    def _cursor(self, row_factory: Any) -> Any:
        cursor = psycopg.AsyncCursor(self._on_loop.connection, row_factory=row_factory)
        read_as_text(cursor)
        return CursorOnLoop(cursor, self._on_loop)


@contextmanager
def callers_transaction(
    given: Any, identity: schema.Identity | None, hooks: ChangeHooks, namespace: Namespace
) -> Iterator[PostgresTransaction]:
    """The open transaction of a connection, with a savepoint around the body.

    `identity` is that of Stepwell's own database: the connection must be one to the same.
    """
    expected: type[Any]
    if isinstance(given, OnLoop):
        connection, expected = given.connection, psycopg.AsyncConnection
        tx: CallersTransaction = TransactionOnLoop(given, hooks, namespace)
    else:
        connection = driver_connection(given)
        expected = psycopg.Connection
        tx = CallersTransaction(connection, hooks, namespace=namespace)
    if not isinstance(connection, expected):
        raise wrong_connection(connection, "PostgreSQL", "psycopg")
    status = connection.info.transaction_status
    if connection.autocommit and status == TransactionStatus.IDLE:
        raise no_transaction()
    if status == TransactionStatus.INERROR:
        raise StepwellError(
            "the transaction of this connection has already failed: roll it back first; nothing was written"
        )
    began = status == TransactionStatus.IDLE
    tx.execute("SAVEPOINT stepwell", {})
    try:
        _refuse_other_database(tx, identity)
        yield tx
    except BaseException:
        if not connection.closed:
            tx.execute("ROLLBACK TO SAVEPOINT stepwell", {})
            tx.execute("ROLLBACK" if began else "RELEASE SAVEPOINT stepwell", {})
        raise
    tx.execute("RELEASE SAVEPOINT stepwell", {})


def _refuse_other_database(tx: PostgresTransaction, identity: schema.Identity | None) -> None:
    try:
        found = schema.identity(tx)
    except psycopg.errors.UndefinedTable as error:
        raise StepwellError(OTHER_DATABASE) from error
    if found != identity:
        raise StepwellError(OTHER_DATABASE)
