"""The databases of a benchmark: SQLite in a file with the product's own settings, PostgreSQL in a fresh schema."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from stepwell import Stepwell
from tests.databases import fresh_postgres_schema
from tests.postgres_server import URL_VARIABLE

KINDS = ("sqlite", "postgres")
_PG_SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers")


@contextmanager
def fresh_app(kind: str, directory: Path, name: str) -> Iterator[Stepwell]:
    """An engine on an empty database that is gone afterwards."""
    if kind == "sqlite":
        path = directory / f"{name}.db"
        with Stepwell(f"sqlite:///{path}") as app:
            yield app
        for file in directory.glob(f"{name}.db*"):
            file.unlink()
    else:
        with fresh_postgres_schema(durable=True) as url, Stepwell(url) as app:
            yield app


def use_postgres(url: str | None) -> None:
    """Name the server; with none named, one is started for this run."""
    if url is not None:
        os.environ[URL_VARIABLE] = url


def settings_of(kind: str) -> str:
    """What decides how durable, and so how slow, a commit is."""
    if kind == "sqlite":
        return (
            f"SQLite {sqlite3.sqlite_version}, a file, journal_mode=WAL, synchronous=FULL (the product's own settings)"
        )
    with fresh_postgres_schema(durable=True) as url, psycopg.connect(url) as connection:
        shown = [f"{name}={_show(connection, name)}" for name in _PG_SETTINGS]
        return f"PostgreSQL {_show(connection, 'server_version')}, {', '.join(shown)}"


def settle(app: Stepwell) -> None:
    """After a bulk load: what autovacuum would do in its own time, so that it does not do it while we measure."""
    if app.database.dialect == "postgres":
        with psycopg.connect(app.database.url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")


def _show(connection: psycopg.Connection, name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])
