"""Rows without an engine: the tables of a step with their indexes, no triggers, as fast as the driver can."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

import psycopg

from bench.timing import stopwatch
from stepwell import Stepwell
from stepwell.model.ids import Uuid7Generator

_MOMENT: Final = "2026-01-01 00:00:00.000000+00:00"
_GROUPS: Final = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")

# What a bulk create of plain steps writes for each of them: one row in each of these.
TABLES: Final = {
    "steps": (
        "id", "uuid", "workflow_id", "block_uuid", "index", "action", "arguments", "queue", "group", "priority",
        "max_retries", "timeout", "cooldown", "concurrency_limit", "placed", "created_at", "updated_at",
    ),
    "step_transitions": ("step_id", "to_state", "at", "attempt"),
    "steps_agenda": ("step_id", "status", "group", "queue", "action", "rank"),
}  # fmt: skip
Ready = list[tuple[str, Sequence[str], list[tuple[Any, ...]]]]


class Bare(ABC):
    """One way to write rows."""

    verb: str

    def __init__(self) -> None:
        self._ids = count(1)
        self._uuids = Uuid7Generator()

    def side(self, steps: int, *tables: str) -> Callable[[], float]:
        """The seconds of writing the rows of this many steps to these tables, in one transaction."""

        def write() -> float:
            ready = self._ready(steps, tables)
            with stopwatch() as watch:
                self._write(ready)
            return watch.seconds

        return write

    def _ready(self, steps: int, tables: Sequence[str]) -> Ready:
        rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES}
        for place, (number, uuid) in enumerate(zip(self._ids, self._uuids.many(steps), strict=False)):
            arguments, group = f'{{"symbol":"BTC","number":{place}}}', _GROUPS[place % 10]
            rows["steps"].append((
                number, uuid, uuid, uuid, 1, "fetch", arguments, "default", group, "default", 3, 0.0, 0.0, 1, True,
                _MOMENT, _MOMENT,
            ))  # fmt: skip
            rows["step_transitions"].append((number, "Pending", _MOMENT, 0))
            rows["steps_agenda"].append((number, "open", group, "default", "fetch", 1))
        return [(table, TABLES[table], rows[table]) for table in tables]

    @abstractmethod
    def _write(self, ready: Ready) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class BareSqlite(Bare):
    """`executemany`, in a file of its own with the same tables, WAL and synchronous=FULL."""

    verb = "executemany"

    def __init__(self, app: Stepwell, path: str) -> None:
        super().__init__()
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        for row in app.database.read(lambda tx: tx.fetch(_SQLITE_SCHEMA, {})):
            self._connection.execute(row["sql"])

    def _write(self, ready: Ready) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for table, columns, rows in ready:
            marks = ", ".join("?" * len(columns))
            self._connection.executemany(f"INSERT INTO {table} ({_quoted(columns)}) VALUES ({marks})", rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class BarePostgres(Bare):
    """`COPY`, into tables with the same columns, constraints and indexes in the same schema."""

    verb = "COPY"

    def __init__(self, app: Stepwell) -> None:
        super().__init__()
        self._connection = psycopg.connect(app.database.url)
        for table in TABLES:
            self._connection.execute(f"CREATE TABLE bare_{table} (LIKE {table} INCLUDING ALL)".encode())
        self._connection.execute("ALTER TABLE bare_steps SET (fillfactor = 60)")
        self._connection.execute("ALTER TABLE bare_steps ADD FOREIGN KEY (parent_step_id) REFERENCES bare_steps (id)")
        self._connection.commit()

    def _write(self, ready: Ready) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            for table, columns, rows in ready:
                with cursor.copy(f"COPY bare_{table} ({_quoted(columns)}) FROM STDIN".encode()) as copy:
                    for row in rows:
                        copy.write_row(row)

    def close(self) -> None:
        self._connection.close()


_SQLITE_SCHEMA: Final = f"""
SELECT sql FROM sqlite_master
WHERE type IN ('table', 'index') AND sql IS NOT NULL AND tbl_name IN ({", ".join(f"'{table}'" for table in TABLES)})
ORDER BY type DESC
"""


def _quoted(columns: Sequence[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)
