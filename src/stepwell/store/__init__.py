"""The only code that speaks SQL: two databases behind one small protocol, statements in `.sql` files."""

from __future__ import annotations

from stepwell.model.clock import Clock
from stepwell.model.errors import StepwellError
from stepwell.store.database import Database, Row, Transaction
from stepwell.store.listener import Listener, Wake

__all__ = ["Database", "Listener", "Wake", "Row", "Transaction", "open_database"]


def open_database(url: str, clock: Clock) -> Database:
    """The database behind `sqlite://`, `sqlite:///file.db` or `postgresql://…`."""
    if url.startswith("sqlite:"):
        from stepwell.store.sqlite import SqliteDatabase

        return SqliteDatabase(url, clock)
    if url.startswith(("postgresql:", "postgres:")):
        try:
            from stepwell.store.postgres import PostgresDatabase
        except ImportError as error:
            raise StepwellError("PostgreSQL needs the driver psycopg: pip install 'stepwell[postgres]'") from error
        return PostgresDatabase(url, clock)
    scheme = url.split(":", 1)[0]
    raise StepwellError(
        f"unknown kind of database {scheme!r}: use sqlite:///file.db, sqlite:// (in memory) or postgresql://…"
    )
