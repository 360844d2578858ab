"""A transaction of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import psycopg
import psycopg_pool
from psycopg.abc import AdaptContext
from psycopg.rows import args_row, dict_row, tuple_row
from psycopg.types.string import TextLoader

from stepwell.model.errors import DatabaseUnavailable, IllegalTransition
from stepwell.store.changes import ChangeHooks
from stepwell.store.conflict import Conflict
from stepwell.store.engine import schema
from stepwell.store.rows import builder
from stepwell.store.statement import Statement
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake

ILLEGAL_TRANSITION: Final = "ZS001"  # raised by the trigger on `steps`

_CONFLICTS: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
# The last one is not among the operational errors, though the server has ended the session.
_OUTAGES: Final = (
    psycopg.OperationalError,
    psycopg_pool.PoolTimeout,
    psycopg.errors.IdleInTransactionSessionTimeout,
)


class _Translation:
    """Turns PostgreSQL's errors into our own. Not a generator: it stands around every statement."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _CONFLICTS):
            raise Conflict(str(error)) from error
        if isinstance(error, _OUTAGES):
            raise DatabaseUnavailable(
                f"PostgreSQL cannot be used ({error}); a transaction that was being committed may or may not have been"
            ) from error
        if isinstance(error, psycopg.DatabaseError) and error.sqlstate == ILLEGAL_TRANSITION:
            raise IllegalTransition(f"{error.diag.message_primary}; nothing changed") from error


translated: Final = _Translation()


class PostgresTransaction(Transaction):
    dialect = "postgres"

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        hooks: ChangeHooks,
        should_send: Callable[[Wake], bool] = lambda _: True,
    ) -> None:
        super().__init__(hooks)
        self._connection = connection
        self._should_send = should_send
        self._wakes: set[Wake] = set()
        self.has_begun = False  # whether the server has answered anything

    def query(self, statement: Statement, parameters: dict[str, Any]) -> Any:
        with translated, self._cursor(tuple_row) as cursor:
            cursor.execute(*self._ready(statement, parameters))
            names = tuple(column.name for column in cursor.description or ())
            rows = cursor.fetchall()
            self.has_begun = True
        if not statement.returns_all:
            return builder(statement.returns, names)(rows[0]) if rows else None
        build = builder(statement.returns, names)
        return [build(values) for values in rows]

    def records(self, statement: Statement, parameters: dict[str, Any]) -> list[Any]:
        with translated, self._cursor(args_row(statement.returns)) as cursor:
            found = cursor.execute(*self._ready(statement, parameters)).fetchall()
            self.has_begun = True
            return found

    def change(self, statement: Statement, parameters: dict[str, Any]) -> int:
        with translated, self._cursor(tuple_row) as cursor:
            changed = cursor.execute(*self._ready(statement, parameters)).rowcount
            self.has_begun = True
            return changed

    def _ready(self, statement: Statement, parameters: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        return statement.sql(self.dialect).encode(), {name: _adapt(value) for name, value in parameters.items()}

    def _cursor(self, row_factory: Any) -> psycopg.Cursor[Any]:
        return self._connection.cursor(row_factory=row_factory)

    def fetch(self, sql: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        with translated, self._cursor(dict_row) as cursor:
            found = cursor.execute(sql.encode(), parameters).fetchall()
            self.has_begun = True
            return found

    def execute(self, sql: str, parameters: dict[str, Any]) -> int:
        with translated, self._cursor(tuple_row) as cursor:
            return cursor.execute(sql.encode(), parameters).rowcount

    def wake(self, wake: Wake) -> None:
        self._wakes.add(wake)

    def wakes_to_send(self, *wakes: Wake) -> list[str]:
        return [wake.value for wake in wakes if self._should_send(wake)]

    def send_wakes(self) -> None:
        """Notify those who listen; it reaches them with the commit."""
        for wake in self.wakes_to_send(*sorted(self._wakes)):
            schema.notify(self, wake=wake)

    def moment(self, when: datetime) -> str:
        # As text, once: COPY would turn the same moment into text again for every row (measured: 3.5 µs each).
        return when.isoformat()

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        names = ", ".join(f'"{column}"' for column in columns)
        statement = f"COPY {table} ({names}) FROM STDIN".encode()
        with translated, self._cursor(tuple_row) as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)


def _adapt(value: Any) -> Any:
    # A list as a literal: the driver would look at each value by itself (measured: 1 µs each, for what takes a tenth).
    if isinstance(value, list | tuple | set | frozenset):
        return f"{{{','.join(map(_element, value))}}}"
    return value


def _element(value: Any) -> str:
    """A value as it stands in the literal of an array."""
    if isinstance(value, str):
        return '"' + value.replace("\\", r"\\").replace('"', r"\"") + '"'
    return "NULL" if value is None else str(value)


def read_as_text(context: AdaptContext) -> None:
    """Of these types, the text that PostgreSQL sends is what is wanted."""
    context.adapters.register_loader("json", TextLoader)
    context.adapters.register_loader("uuid", TextLoader)


class CallersTransaction(PostgresTransaction):
    """It ends when the caller says so: a wake-up is sent now, and arrives with the commit."""

    def _cursor(self, row_factory: Any) -> psycopg.Cursor[Any]:
        cursor = super()._cursor(row_factory)
        read_as_text(cursor)  # and not the connection: the caller may want to read them another way
        return cursor

    def wake(self, wake: Wake) -> None:
        if wake not in self._wakes:
            self._wakes.add(wake)
            schema.notify(self, wake=wake.value)
