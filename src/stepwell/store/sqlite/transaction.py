"""A transaction of SQLite."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import chain, islice
from typing import Any, Final

import msgspec

from stepwell.model.errors import DatabaseUnavailable, IllegalTransition, ReadTookTooLong
from stepwell.store.changes import ChangeHooks
from stepwell.store.conflict import Conflict
from stepwell.store.macros import SQLITE
from stepwell.store.rows import Values, builder, from_text, to_text
from stepwell.store.statement import Statement
from stepwell.store.transaction import NO_COLUMNS, READ_TOOK_TOO_LONG, UNREADABLE_TEXT, Transaction
from stepwell.store.wake import Wake

# Every statement that fires triggers opens a statement journal, so single rows are slow: measured 32 µs per step, and
# 9 µs in statements of 100 rows. With at most 40 columns this stays far below SQLite's 32,766 parameters.
ROWS_PER_INSERT: Final = 100

_PLACEHOLDER: Final = re.compile(r"(?<![:\w]):(\w+)")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}")
_UNUSABLE: Final = {
    sqlite3.SQLITE_FULL: "make room on its disk",
    sqlite3.SQLITE_IOERR: "check its disk",
    sqlite3.SQLITE_READONLY: "this user may not write the file or its directory; change their owner or mode",
    sqlite3.SQLITE_CANTOPEN: "check that its directory exists and that this user may write to it",
}
_PLAIN: Final = (str, int, float, bool, type(None))
_encode: Final = msgspec.json.Encoder().encode


class _Translation:
    """Turns SQLite errors into our own. A class, not a generator, for speed: it wraps every statement."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.IntegrityError) and "illegal transition" in str(error):
            raise IllegalTransition(f"{error}: the transition table does not allow it; nothing changed") from error
        if isinstance(error, sqlite3.OperationalError):
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise Conflict(str(error)) from error
            if code == sqlite3.SQLITE_INTERRUPT:
                raise ReadTookTooLong(READ_TOOK_TOO_LONG) from error
            if code in _UNUSABLE:
                raise DatabaseUnavailable(
                    f'SQLite reports "{error}"; nothing was written, and the file is intact: {_UNUSABLE[code]}'
                ) from error


translated: Final = _Translation()


class Prepared:
    """A statement as SQLite runs it: one after the other, its parts do what one statement does on PostgreSQL."""

    __slots__ = ("build", "first", "last", "parameters", "returns_all")

    def __init__(self, statement: Statement) -> None:
        *self.first, self.last = parts_of(sql := statement.sql(SQLITE))
        self.parameters = frozenset(_PLACEHOLDER.findall(sql))
        self.returns_all = statement.returns_all
        self.build: Callable[[Values], Any] | None = None  # known when the first rows come


def parts_of(sql: str) -> list[str]:
    return sql.rstrip().removesuffix(";").split(";\n")


def prepared(statement: Statement) -> Prepared:
    found: Prepared | None = statement.prepared.get(SQLITE)
    if found is None:
        found = statement.prepared[SQLITE] = Prepared(statement)
    return found


@cache
def _decoder(kind: type) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]


def adapt(value: Any) -> Any:
    """A value as SQLite takes it: times as text, lists as JSON."""
    if isinstance(value, datetime):
        return to_text(value)
    if isinstance(value, list | tuple | set | frozenset):
        try:
            return _encode(value).decode()
        except TypeError:
            return json.dumps(list(value))  # also accepts subclasses of str and int
    return value


class SqliteTransaction(Transaction):
    dialect = SQLITE

    def __init__(self, connection: sqlite3.Connection, hooks: ChangeHooks) -> None:
        super().__init__(hooks)
        self._connection = connection

    def query(self, statement: Statement, parameters: dict[str, Any]) -> Any:
        ready = prepared(statement)
        with translated:
            names, rows = self._rows(ready.last, self._run_first(ready, parameters))
        if not rows:
            return [] if ready.returns_all else None
        build = ready.build
        if build is None:
            build = ready.build = builder(statement.returns, names())
        return [build(values) for values in rows] if ready.returns_all else build(rows[0])

    def records(self, statement: Statement, parameters: dict[str, Any]) -> list[Any]:
        # The driver releases the GIL for every row that it reads, and next to busy threads it may wait each time to get
        # it back (measured: 31 ms for 256 rows, 5 ms for the same in one value). So such a statement returns all its
        # rows as one JSON array.
        with translated:
            ready = prepared(statement)
            _, ((text,),) = self._rows(ready.last, self._run_first(ready, parameters))
        self.has_read_bad_text = UNREADABLE_TEXT in text  # or text with this very character: whoever cares looks closer
        found: list[Any] = _decoder(statement.returns).decode(text)
        return found

    def change(self, statement: Statement, parameters: dict[str, Any]) -> int:
        with translated:
            ready = prepared(statement)
            changed = self._connection.execute(ready.last, self._run_first(ready, parameters)).rowcount
            if changed >= 0:
                return changed
            # The driver sets no row count for statements that start with WITH; SQLite does.
            (changed,) = self._connection.execute("SELECT changes()").fetchone()
            return int(changed)

    def _run_first(self, ready: Prepared, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Run all but the last part of a statement; returns the parameters as SQLite takes them."""
        adapted = {
            name: value if type(value) in _PLAIN else adapt(value)
            for name, value in parameters.items()
            if name in ready.parameters
        }
        for part in ready.first:
            self._connection.execute(part, adapted)
        return adapted

    def _rows(self, sql: str, parameters: dict[str, Any]) -> tuple[Callable[[], tuple[str, ...]], list[Any]]:
        """The names of the columns, on request, and the rows."""
        cursor = self._connection.execute(sql, parameters)
        return lambda: names_of(cursor), cursor.fetchall()

    def fetch(self, sql: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        with translated:
            names, rows = self._rows(sql, {name: adapt(value) for name, value in parameters.items()})
        # No type is declared for these columns, so a value that looks like a time is converted.
        return [
            {
                name: from_text(value) if isinstance(value, str) and _TIME.fullmatch(value) else value
                for name, value in zip(names(), values, strict=True)
            }
            for values in rows
        ]

    def execute(self, sql: str, parameters: dict[str, Any]) -> int:
        with translated:
            return self._connection.execute(sql, {n: adapt(value) for n, value in parameters.items()}).rowcount

    def wake(self, wake: Wake) -> None:
        pass  # listeners notice the commit themselves

    def timestamp(self, when: datetime) -> str:
        return to_text(when)

    def insert(
        self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], same: Mapping[str, Any] = NO_COLUMNS
    ) -> None:
        # Values that all rows share are bound once for each statement (measured: 1.3 µs less for each step).
        names = ", ".join(f'"{column}"' for column in (*same, *columns))
        shared = [f"?{number}" for number in range(1, len(same) + 1)]
        placeholders = f"({', '.join([*shared, *'?' * len(columns)])})"
        rows = iter(rows)
        with translated:
            while batch := list(islice(rows, ROWS_PER_INSERT)):
                statement = f"INSERT INTO {table} ({names}) VALUES {', '.join([placeholders] * len(batch))}"
                self._connection.execute(statement, [*same.values(), *chain.from_iterable(batch)])


def names_of(cursor: sqlite3.Cursor) -> tuple[str, ...]:
    return () if cursor.description is None else tuple(column[0] for column in cursor.description)
