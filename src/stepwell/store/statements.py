"""The SQL of a dialect, by name: `sql/common` holds what both databases understand, the rest stands apart."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

_SQL: Final = Path(__file__).parent / "sql"
_ADAPTERS: Final = {"sqlite": "sqlite3", "postgres": "psycopg"}


@cache
def statements(dialect: str) -> dict[str, str]:
    """Every statement of `sql/common` and `sql/<dialect>`, with that driver's placeholders."""
    import aiosql  # here, for it takes a fifth of the time of importing Stepwell

    found: dict[str, str] = {}
    for folder in (_SQL / "common", _SQL / dialect):
        queries = aiosql.from_path(folder, _ADAPTERS[dialect])
        for name in queries.available_queries:
            if name.endswith("_cursor"):
                continue
            if name in found:
                raise ValueError(f"the statement {name} stands twice in the {dialect} set")
            found[name] = getattr(queries, name).sql
    return found
