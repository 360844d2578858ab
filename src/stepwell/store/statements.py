"""The SQL of a dialect, by name: `sql/common` holds what both databases understand, the rest stands apart."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

_SQL: Final = Path(__file__).parent / "sql"
_IN_SELECT: Final = re.compile(r"(?<!NOT )\bIN \((?=\s*SELECT\b)")
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
            text = getattr(queries, name).sql
            found[name] = _sets_first(text) if dialect == "postgres" else text
    return found


def _sets_first(sql: str) -> str:
    """The statement with its `IN (SELECT …)` as PostgreSQL is to understand it: first the set, then its rows.

    Left to itself it may do it the other way round. Its statistics say that next to no step is unfinished, so it would
    read all of them to find those few.

    >>> _sets_first("UPDATE steps SET reason = NULL WHERE id IN (SELECT id FROM (VALUES (1)) AS some (id)) AND placed")
    'UPDATE steps SET reason = NULL WHERE id = ANY(ARRAY(SELECT id FROM (VALUES (1)) AS some (id))) AND placed'
    """
    while found := _IN_SELECT.search(sql):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        sql = f"{sql[: found.start()]}= ANY(ARRAY({sql[found.end() : end]}){sql[end:]}"
    return sql
