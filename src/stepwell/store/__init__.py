"""The only code that contains SQL: two databases behind one set of typed verbs (`store.engine`)."""

from __future__ import annotations

from collections.abc import Callable

from stepwell.model.clock import Clock
from stepwell.model.errors import StepwellError
from stepwell.store.changes import Change, ChangeHooks, WorkflowChange
from stepwell.store.conflict import Conflict
from stepwell.store.database import Database
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Listener, Wake

__all__ = [
    "Change", "ChangeHooks", "Conflict", "Database", "Listener", "Transaction", "Wake", "WorkflowChange",
    "open_database",
]  # fmt: skip


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
    scheme = url.split(":", 1)[0]
    raise StepwellError(
        f"unknown database type {scheme!r}; use sqlite:///file.db, sqlite:// (in memory) or postgresql://…"
    )
