"""An empty schema on a PostgreSQL server, dropped afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg

from stepwell.store.postgres.transaction import translated


@contextmanager
def scratch_schema(url: str) -> Iterator[str]:
    """The URL of an empty schema on the same server."""
    schema = f"stepwell_scratch_{secrets.token_hex(6)}"
    _execute(url, f"CREATE SCHEMA {schema}")
    try:
        yield with_search_path(url, schema)
    finally:
        _execute(url, f"DROP SCHEMA {schema} CASCADE")


def with_search_path(url: str, schema: str) -> str:
    """The URL with this schema as the search path, in addition to its other options.

    >>> with_search_path("postgresql://host/db?sslmode=disable", "own")
    'postgresql://host/db?sslmode=disable&options=-csearch_path%3Down'
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    query["options"] = f"{query.get('options', '')} -csearch_path={schema}".strip()
    return parts._replace(query=urlencode(query, quote_via=quote)).geturl()


def _execute(url: str, statement: str) -> None:
    with translated, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())
