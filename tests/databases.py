"""Fresh, empty, real databases: for the fixtures of the tests, and for benchmarks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

from tests.postgres_server import server_url


@contextmanager
def fresh_database(kind: str, directory: Path) -> Iterator[str]:
    """The URL of an empty database of this kind; a file of it stands in the directory."""
    match kind:
        case "sqlite-memory":
            yield "sqlite://"
        case "sqlite-file":
            yield f"sqlite:///{directory}/stepwell.db"
        case "postgres":
            with fresh_postgres_schema() as url:
                yield url
        case _:
            raise ValueError(f"{kind!r} is no kind of database")


@contextmanager
def fresh_postgres_schema(durable: bool = False) -> Iterator[str]:
    """The URL of an empty schema, alone in the search path, which is dropped afterwards.

    Advisory locks and notification channels belong to the whole database: they are shared with other schemas.
    """
    server = server_url(durable)
    schema = f"test_{uuid4().hex[:12]}"
    _execute(server, f"CREATE SCHEMA {schema}")
    try:
        yield f"{server}{'&' if '?' in server else '?'}options=-csearch_path%3D{schema}"
    finally:
        _drop(server, schema)


def _drop(server: str, schema: str) -> None:
    try:
        # Ten seconds: no healthy transaction of a test lasts as long, even on a busy machine.
        _execute(server, "SET lock_timeout = '10s'", f"DROP SCHEMA {schema} CASCADE")
    except psycopg.errors.LockNotAvailable as error:
        error.add_note("A connection of this test still holds a transaction open: did it close its app?")
        raise


def _execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
