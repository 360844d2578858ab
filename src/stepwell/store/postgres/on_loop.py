"""An async cursor of psycopg, as code in another thread uses it."""

from __future__ import annotations

from typing import Any

import psycopg

from stepwell.store.on_loop import OnLoop


class CursorOnLoop:
    """What `PostgresTransaction` needs of a cursor; each call runs on the event loop of the connection."""

    def __init__(self, cursor: psycopg.AsyncCursor[Any], on_loop: OnLoop) -> None:
        self._cursor = cursor
        self._on_loop = on_loop

    def __enter__(self) -> CursorOnLoop:
        return self

    def __exit__(self, *error: object) -> None:
        self._on_loop.run(self._cursor.close())

    def execute(self, sql: bytes, parameters: dict[str, Any]) -> CursorOnLoop:
        self._on_loop.run(self._cursor.execute(sql, parameters))
        return self

    def fetchall(self) -> list[Any]:
        return self._on_loop.run(self._cursor.fetchall())

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    @property
    def description(self) -> Any:
        return self._cursor.description

    def copy(self, statement: bytes) -> CopyOnLoop:
        return CopyOnLoop(self._cursor, statement, self._on_loop)


class CopyOnLoop:
    """Collects the rows of a COPY and sends them at the end: a call for each of them would be slow."""

    def __init__(self, cursor: psycopg.AsyncCursor[Any], statement: bytes, on_loop: OnLoop) -> None:
        self._cursor = cursor
        self._statement = statement
        self._on_loop = on_loop
        self._rows: list[Any] = []

    def __enter__(self) -> CopyOnLoop:
        return self

    def write_row(self, row: Any) -> None:
        self._rows.append(row)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._on_loop.run(self._send())

    async def _send(self) -> None:
        async with self._cursor.copy(self._statement) as copy:
            for row in self._rows:
                await copy.write_row(row)
