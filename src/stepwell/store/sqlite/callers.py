"""A transaction of the caller's own, on a connection of sqlite3 or aiosqlite."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepwell.model.errors import StepwellError
from stepwell.store.callers import OTHER_DATABASE, driver_connection, no_transaction, wrong_connection
from stepwell.store.changes import ChangeHooks
from stepwell.store.on_loop import OnLoop
from stepwell.store.sqlite.on_loop import ConnectionOnLoop, is_aiosqlite
from stepwell.store.sqlite.transaction import SqliteTransaction, names_of, translated


class CallersTransaction(SqliteTransaction):
    """On the caller's connection, which may have its own row and text factories."""

    def _rows(self, sql: str, parameters: dict[str, Any]) -> tuple[Callable[[], tuple[str, ...]], list[Any]]:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        factory = self._connection.text_factory
        self._connection.text_factory = str
        try:
            cursor.execute(sql, parameters)
            return lambda: names_of(cursor), cursor.fetchall()
        finally:
            self._connection.text_factory = factory

    def rows(self, sql: str) -> list[Any]:
        with translated:
            return self._rows(sql, {})[1]


@contextmanager
def callers_transaction(given: Any, own: Path | sqlite3.Connection, hooks: ChangeHooks) -> Iterator[SqliteTransaction]:
    """The open transaction of a connection, with a savepoint around the body.

    `own` is the file of Stepwell's own database, or its only connection if it is in memory: the caller's connection
    must lead to the same.
    """
    connection = _usable(given)
    tx = CallersTransaction(connection, hooks)
    if connection is not own and not _is_on_file(tx, own):
        raise StepwellError(OTHER_DATABASE)
    began = not connection.in_transaction
    if began:
        # Python 3.12 has a second way to turn transactions off, under which commit() would do nothing.
        if connection.isolation_level is None or getattr(connection, "autocommit", False) is True:
            raise no_transaction()
        with translated:
            connection.execute("BEGIN IMMEDIATE")
    tx.execute("SAVEPOINT stepwell", {})
    try:
        yield tx
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself when, for example, the disk is full
            tx.execute("ROLLBACK TO stepwell", {})
            tx.execute("ROLLBACK" if began else "RELEASE stepwell", {})
        raise
    tx.execute("RELEASE stepwell", {})


def _usable(given: Any) -> Any:
    connection = given.connection if isinstance(given, OnLoop) else driver_connection(given)
    if isinstance(given, OnLoop) and is_aiosqlite(connection):
        return ConnectionOnLoop(given)
    if isinstance(connection, sqlite3.Connection):
        return connection
    raise wrong_connection(connection, "SQLite", "sqlite3")


def _is_on_file(tx: CallersTransaction, own: Path | sqlite3.Connection) -> bool:
    (main,) = (file for _, name, file in tx.rows("PRAGMA database_list") if name == "main")
    try:
        return isinstance(own, Path) and bool(main) and os.path.samefile(main, own)
    except OSError:
        return False
