"""A connection of aiosqlite, as code in another thread uses it."""

from __future__ import annotations

from typing import Any

from stepwell.store.on_loop import OnLoop


def is_aiosqlite(connection: Any) -> bool:
    return type(connection).__module__.partition(".")[0] == "aiosqlite"


class ConnectionOnLoop:
    """What `SqliteTransaction` needs of a connection; each call runs on the event loop of the connection."""

    def __init__(self, on_loop: OnLoop) -> None:
        self._on_loop = on_loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._on_loop.connection, name)  # its state: in_transaction, isolation_level

    @property
    def text_factory(self) -> Any:
        return self._on_loop.connection.text_factory

    @text_factory.setter
    def text_factory(self, factory: Any) -> None:
        self._on_loop.connection.text_factory = factory

    def cursor(self) -> CursorOnLoop:
        return CursorOnLoop(self._on_loop)

    def execute(self, sql: str, parameters: Any = ()) -> CursorOnLoop:
        return self.cursor().execute(sql, parameters)


class CursorOnLoop:
    """A cursor that fetches all rows at once: each call takes two changes of threads."""

    row_factory: Any = None

    def __init__(self, on_loop: OnLoop) -> None:
        self._on_loop = on_loop
        self._rows: list[Any] = []
        self.rowcount = -1
        self.description: Any = None

    def execute(self, sql: str, parameters: Any) -> CursorOnLoop:
        self._on_loop.run(self._execute(sql, parameters))
        return self

    async def _execute(self, sql: str, parameters: Any) -> None:
        cursor = await self._on_loop.connection.cursor()
        try:
            cursor.row_factory = None
            await cursor.execute(sql, parameters)
            self._rows = list(await cursor.fetchall())
            self.rowcount, self.description = cursor.rowcount, cursor.description
        finally:
            await cursor.close()

    def fetchall(self) -> list[Any]:
        return self._rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None
