"""The only code that contains SQL: two databases behind one set of typed verbs (`store.engine`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from stepwell.model.clock import Clock
from stepwell.model.errors import StepwellError
from stepwell.store.changes import Change, ChangeHooks, Touched, WorkflowChange
from stepwell.store.conflict import Conflict
from stepwell.store.connections import Connections, Settings
from stepwell.store.database import Database
from stepwell.store.macros import POSTGRES, SQLITE
from stepwell.store.postgres.namespace import split_url
from stepwell.store.sqlite.path import path_of
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Listener, Wake

__all__ = [
    "Change", "ChangeHooks", "Conflict", "Database", "Listener", "Touched", "Transaction", "Wake", "WorkflowChange",
    "open_database",
]  # fmt: skip


def open_database(url: str, clock: Clock, prepare: Callable[[Database], None] | None = None) -> Database:
    """The database behind `sqlite://`, `sqlite:///file.db` or `postgresql://…`.

    Nothing is touched yet: the driver is imported, and the database opened, on first use.
    """
    if url.startswith("sqlite:"):
        path = path_of(url)
        # Resolved now, so that a later change of directory does not matter.
        connect = partial(_connect_to_sqlite, path=None if path is None else path.resolve())
        return Database(url, SQLITE, clock, connect, prepare, is_shared=path is not None)
    if url.startswith(("postgresql:", "postgres:")):
        split_url(url)  # a bad name of a schema is refused at once
        return Database(url, POSTGRES, clock, _connect_to_postgres, prepare)
    kind = re.match(r"[a-z][a-z0-9+]{1,20}(?=://)", url)  # anything else may be a password
    raise StepwellError(
        f"{f'unknown database type {kind[0]!r}' if kind else 'this is not the URL of a database'}; "
        "use sqlite:///file.db, sqlite:// (in memory) or postgresql://user:password@host/name"
    )


def _connect_to_sqlite(settings: Settings, *, path: Path | None) -> Connections:
    from stepwell.store.sqlite.connections import SqliteConnections

    return SqliteConnections(settings, path)


def _connect_to_postgres(settings: Settings) -> Connections:
    try:
        from stepwell.store.postgres.connections import PostgresConnections
    except ImportError as error:
        raise StepwellError("PostgreSQL needs the psycopg driver: pip install 'stepwell[postgres]'") from error
    return PostgresConnections(settings)
