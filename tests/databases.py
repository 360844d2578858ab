"""Fresh real databases: empty ones, and copies of one that has its schema; for the tests, and for benchmarks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from tests.postgres_server import server_url

# The schema of a copy is not `public`: Stepwell must work wherever the search path leads.
SCHEMA: Final = "jobs"
# Ten seconds: no healthy transaction of a test lasts as long, even on a busy machine.
TRANSACTION_SECONDS: Final = 10.0

KINDS: Final = ("sqlite-memory", "sqlite-file", "postgres")


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
            raise ValueError(f"unknown kind of database {kind!r}; valid kinds: {', '.join(KINDS)}")


@contextmanager
def fresh_postgres_schema(durable: bool = False) -> Iterator[str]:
    """The URL of an empty schema, alone in the search path, which is dropped afterwards.

    Advisory locks and notification channels belong to the whole database: they are shared with other schemas.
    """
    server = server_url(durable)
    schema = f"test_{uuid4().hex[:12]}"
    _execute(server, f"CREATE SCHEMA {schema}")
    try:
        yield _with_search_path(server, schema)
    finally:
        _drop(server, schema)


class Templates:
    """One migrated database of each kind; every test gets a copy, which nobody else uses, and which is then dropped.

    What it costs to get a database with its schema, run one step in it, check it and drop it, on PostgreSQL 18 with
    its files in memory, on two cores that others use too (best and median of 25, in milliseconds):

        an empty schema that Stepwell migrates                            97   144
        CREATE DATABASE … TEMPLATE, STRATEGY WAL_LOG                      79   113
        CREATE DATABASE … TEMPLATE, STRATEGY FILE_COPY                    69    91   <- this one
        one database for all, its tables truncated and filled again       61    77
        the same, but only the tables that have rows                      59    74

    The last two are not taken: statistics, sessions and whatever a test did to the schema would stay for the next
    test. A copy shares nothing but the server, not even advisory locks and notification channels. On a disk, the 400
    files of a copy take from 20 to 300 ms while other tests sync theirs: see `tests/scratch.py`. Of a SQLite file, the
    migration takes 6 ms and a copy 2 ms; in memory, the migration takes 4 ms and there is no file to copy.

    `prepare` creates the schema in the empty database behind a URL, and leaves no connection to it open.
    """

    def __init__(self, directory: Path, prepare: Callable[[str], None]) -> None:
        self._directory = directory
        self._prepare = prepare
        self._file: Path | None = None
        self._postgres: _PostgresTemplate | None = None

    @contextmanager
    def copy(self, kind: str, directory: Path) -> Iterator[str]:
        """The URL of a database of this kind that has its schema and nothing else (in memory it is empty)."""
        match kind:
            case "sqlite-file":
                copied = directory / "stepwell.db"
                shutil.copyfile(self._template_file(), copied)
                yield f"sqlite:///{copied}"
            case "postgres":
                if self._postgres is None:
                    self._postgres = _PostgresTemplate(server_url(), self._prepare)
                with self._postgres.copy() as url:
                    yield url
            case _:
                with fresh_database(kind, directory) as url:
                    yield url

    def _template_file(self) -> Path:
        if self._file is None:
            file = self._directory / "template.db"
            self._prepare(f"sqlite:///{file}")
            self._file = file
        return self._file

    def close(self) -> None:
        if self._postgres is not None:
            self._postgres.close()


class _PostgresTemplate:
    """A migrated database on a server, and a connection to copy and drop by."""

    def __init__(self, server: str, prepare: Callable[[str], None]) -> None:
        self._server = server
        self._connection = psycopg.connect(server, autocommit=True)
        # PostgreSQL 18 can leave the copying to the kernel: on a disk 14 ms instead of 20, in memory 9 instead of 11.
        self._execute(
            "SELECT set_config(name, 'clone', false) FROM pg_settings "
            "WHERE name = 'file_copy_method' AND 'clone' = ANY (enumvals)"
        )
        self._name = self._new_name("template")
        self._execute(f"CREATE DATABASE {self._name}")
        _execute(self._url(self._name), f"CREATE SCHEMA {SCHEMA}")
        prepare(_with_search_path(self._url(self._name), SCHEMA))

    @contextmanager
    def copy(self) -> Iterator[str]:
        name = self._new_name("test")
        self._execute(f"CREATE DATABASE {name} TEMPLATE {self._name} STRATEGY file_copy")
        try:
            yield _with_search_path(self._url(name), SCHEMA)
        finally:
            self._drop(name)

    def close(self) -> None:
        self._execute(f"DROP DATABASE {self._name}")
        self._connection.close()

    def _drop(self, name: str) -> None:
        left = self._open_transactions(name)
        self._execute(f"DROP DATABASE {name} WITH (FORCE)")
        assert not left, f"a connection of this test still holds a transaction open: did it close its app? {left}"

    def _open_transactions(self, name: str) -> list[str]:
        """The last statements of transactions that do not end by themselves."""
        give_up = time.monotonic() + TRANSACTION_SECONDS
        while True:
            found = self._connection.execute(
                "SELECT query FROM pg_stat_activity WHERE datname = %s AND xact_start IS NOT NULL "
                "AND backend_type = 'client backend'",
                [name],
            ).fetchall()
            if not found or time.monotonic() > give_up:
                return [query for (query,) in found]
            time.sleep(0.01)

    @staticmethod
    def _new_name(purpose: str) -> str:
        return f"stepwell_{purpose}_{uuid4().hex[:12]}"

    def _url(self, database: str) -> str:
        return urlsplit(self._server)._replace(path=f"/{database}").geturl()

    def _execute(self, statement: str) -> None:
        self._connection.execute(statement.encode())


def _with_search_path(url: str, schema: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"


def _drop(server: str, schema: str) -> None:
    try:
        _execute(server, f"SET lock_timeout = '{TRANSACTION_SECONDS:g}s'", f"DROP SCHEMA {schema} CASCADE")
    except psycopg.errors.LockNotAvailable as error:
        error.add_note("A connection of this test still holds a transaction open: did it close its app?")
        raise


def _execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
