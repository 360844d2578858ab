"""The only code that contains SQL: two databases behind one set of typed verbs (`store.engine`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from stepwell.model.clock import Clock
from stepwell.model.errors import StepwellError
from stepwell.store.changes import Change, ChangeHooks
from stepwell.store.conflict import Conflict
from stepwell.store.database import Database
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Listener, Wake

__all__ = ["Change", "ChangeHooks", "Conflict", "Database", "Listener", "Transaction", "Wake", "open_database"]


def open_database(url: str, clock: Clock, prepare: Callable[[Database], None] | None = None) -> Database:
    """The database behind `sqlite://`, `sqlite:///file.db` or `postgresql://…`; it connects on first use."""
    if url.startswith("sqlite:"):
        from stepwell.store.sqlite.database import SqliteDatabase

        return SqliteDatabase(url, clock, prepare)
    if url.startswith(("postgresql:", "postgres:")):
        try:
            from stepwell.store.postgres.database import PostgresDatabase
        except ImportError as error:
            raise StepwellError("PostgreSQL needs the psycopg driver: pip install 'stepwell[postgres]'") from error
        return PostgresDatabase(url, clock, prepare)
    kind = re.match(r"[a-z][a-z0-9+]{1,20}(?=://)", url)  # anything else may be a password
    raise StepwellError(
        f"{f'unknown database type {kind[0]!r}' if kind else 'this is not the URL of a database'}; "
        "use sqlite:///file.db, sqlite:// (in memory) or postgresql://user:password@host/name"
    )
