"""The least SQL that moves steps through their states with a history: no engine, no guards, one worker.

One row per step and one per change of state, an index on what is pending. Everything is done in sets of at most 128.
"""

from __future__ import annotations

import json
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

import psycopg

BATCH: Final = 128

_MOMENT: Final = "2026-01-01 00:00:00.000000+00:00"
_COLUMNS: Final = ("id", "state", "action", "arguments", "next", "parent", "blocked", "children")
# `integer PRIMARY KEY`, because SQLite then needs no index for it: a page less to write with every step.
_SCHEMA: Final = (
    "CREATE TABLE steps (id integer PRIMARY KEY, state text NOT NULL, action text NOT NULL, arguments text NOT NULL, "
    "next bigint, parent bigint, blocked integer NOT NULL, children integer NOT NULL)",
    "CREATE INDEX pending ON steps (id) WHERE state = 'Pending' AND blocked = 0",
    "CREATE INDEX dispatched ON steps (id) WHERE state = 'Dispatched'",
    "CREATE TABLE history (step_id bigint NOT NULL, from_state text, to_state text NOT NULL, at text NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class Row:
    """A step. `next` is what it unblocks, `parent` what waits for it, with a count of its children."""

    id: int
    state: str = "Pending"
    action: str = "no_op"
    arguments: str = "{}"
    next: int | None = None
    parent: int | None = None
    blocked: int = 0
    children: int = 0


class Store(ABC):
    """One transaction per verb."""

    @abstractmethod
    def create(self) -> None: ...

    @abstractmethod
    def enqueue(self, row: Row) -> None:
        """One step, and a call for whoever waits."""

    @abstractmethod
    def enqueue_many(self, rows: Sequence[Row]) -> None: ...

    @abstractmethod
    def dispatch(self) -> int:
        """Pending → Dispatched; says how many."""

    @abstractmethod
    def turn(self, finished: list[int], linked: bool) -> list[int]:
        """Running → Completed for these, Dispatched → Running for the next, in one; says which.

        `linked`: what they unblock and who waits for them is looked after, too.
        """

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Until somebody enqueues."""

    @abstractmethod
    def close(self) -> None: ...


class Sqlite(Store):
    """WAL, synchronous=FULL; sets of ids travel as JSON."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._seen = self._version()

    def create(self) -> None:
        for statement in _SCHEMA:
            self._connection.execute(statement)

    def enqueue(self, row: Row) -> None:
        self.enqueue_many([row])

    def enqueue_many(self, rows: Sequence[Row]) -> None:
        marks = ", ".join("?" * len(_COLUMNS))
        self._begin()
        self._connection.executemany(f"INSERT INTO steps VALUES ({marks})", [astuple(row) for row in rows])
        noted = [(row.id, None, row.state, _MOMENT) for row in rows]
        self._connection.executemany("INSERT INTO history VALUES (?, ?, ?, ?)", noted)
        self._connection.execute("COMMIT")

    def dispatch(self) -> int:
        self._begin()
        moved = self._move(self._first("state = 'Pending' AND blocked = 0"), "Pending", "Dispatched")
        self._connection.execute("COMMIT")
        return len(moved)

    def turn(self, finished: list[int], linked: bool) -> list[int]:
        self._begin()
        self._move(finished, "Running", "Completed")
        if linked and finished:
            self._follow(finished)
        claimed = self._move(self._first("state = 'Dispatched'"), "Dispatched", "Running")
        self._connection.execute("COMMIT")
        return claimed

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._version() == self._seen and time.monotonic() < deadline:
            time.sleep(0.001)
        self._seen = self._version()

    def close(self) -> None:
        self._connection.close()

    def _begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _first(self, condition: str) -> list[int]:
        found = self._connection.execute(f"SELECT id FROM steps WHERE {condition} ORDER BY id LIMIT {BATCH}")
        return [step for (step,) in found]

    def _move(self, ids: list[int], origin: str, target: str) -> list[int]:
        if ids:
            these = json.dumps(ids)
            change = "UPDATE steps SET state = ? WHERE id IN (SELECT value FROM json_each(?)) AND state = ?"
            self._connection.execute(change, (target, these, origin))
            note = "INSERT INTO history SELECT value, ?, ?, ? FROM json_each(?)"
            self._connection.execute(note, (origin, target, _MOMENT, these))
        return ids

    def _follow(self, finished: list[int]) -> None:
        these = json.dumps(finished)
        among = "(SELECT {} FROM steps WHERE id IN (SELECT value FROM json_each(?)))"
        unblock = f"UPDATE steps SET blocked = blocked - 1 WHERE id IN {among.format('next')}"
        self._connection.execute(unblock, (these,))
        parents = self._connection.execute(
            "SELECT parent, count(*) FROM steps WHERE id IN (SELECT value FROM json_each(?)) AND parent IS NOT NULL "
            "GROUP BY parent",
            (these,),
        ).fetchall()
        for parent, count in parents:
            lower = "UPDATE steps SET children = children - ? WHERE id = ? RETURNING children"
            ((left,),) = self._connection.execute(lower, (count, parent)).fetchall()
            if left == 0:
                self._move([parent], "Running", "Completed")


class Postgres(Store):
    """One statement per change of state and its history; COPY in bulk; LISTEN and NOTIFY."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("LISTEN enqueued")

    def create(self) -> None:
        for statement in _SCHEMA:
            self._connection.execute(statement.encode())

    def enqueue(self, row: Row) -> None:
        marks = ", ".join(["%s"] * len(_COLUMNS))
        self._connection.execute(
            f"WITH made AS (INSERT INTO steps VALUES ({marks}) RETURNING id, state), "
            "noted AS (INSERT INTO history SELECT id, NULL, state, %s FROM made) "
            "SELECT pg_notify('enqueued', '')".encode(),
            (*astuple(row), _MOMENT),
        )

    def enqueue_many(self, rows: Sequence[Row]) -> None:
        noted = ((row.id, None, row.state, _MOMENT) for row in rows)
        with self._connection.transaction(), self._connection.cursor() as cursor:
            for table, lines in (("steps", map(astuple, rows)), ("history", noted)):
                with cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    for line in lines:
                        copy.write_row(line)

    def dispatch(self) -> int:
        return len(self._take("state = 'Pending' AND blocked = 0", "Pending", "Dispatched"))

    def turn(self, finished: list[int], linked: bool) -> list[int]:
        with self._connection.transaction():
            if finished:
                self._fetch(_MOVE.format(which="id = ANY(%(ids)s)"), _change("Running", "Completed", finished))
                if linked:
                    self._fetch(_FOLLOW, _change("Running", "Completed", finished))
            return self._take("state = 'Dispatched'", "Dispatched", "Running")

    def wait(self, seconds: float) -> None:
        for _ in self._connection.notifies(timeout=seconds, stop_after=1):
            pass

    def close(self) -> None:
        self._connection.close()

    def _take(self, condition: str, origin: str, target: str) -> list[int]:
        first = f"SELECT id FROM steps WHERE {condition} ORDER BY id LIMIT {BATCH} FOR UPDATE SKIP LOCKED"
        return self._fetch(_MOVE.format(which=f"id = ANY(ARRAY({first}))"), _change(origin, target))

    def _fetch(self, statement: str, parameters: dict[str, Any]) -> list[int]:
        return [step for (step,) in self._connection.execute(statement.encode(), parameters)]


_MOVE: Final = (
    "WITH moved AS (UPDATE steps SET state = %(target)s WHERE {which} AND state = %(origin)s RETURNING id), "
    "noted AS (INSERT INTO history SELECT id, %(origin)s, %(target)s, %(at)s FROM moved) SELECT id FROM moved"
)
_FOLLOW: Final = (
    "WITH ended AS (SELECT next, parent FROM steps WHERE id = ANY(%(ids)s)), "
    "unblocked AS (UPDATE steps SET blocked = blocked - 1 WHERE id IN (SELECT next FROM ended)), "
    "fewer AS (SELECT parent, count(*) AS count FROM ended WHERE parent IS NOT NULL GROUP BY parent), "
    "lowered AS (UPDATE steps SET children = children - count, "
    "state = CASE WHEN children = count THEN %(target)s ELSE state END "
    "FROM fewer WHERE id = fewer.parent RETURNING id, children), "
    "noted AS (INSERT INTO history SELECT id, %(origin)s, %(target)s, %(at)s FROM lowered WHERE children = 0) "
    "SELECT id FROM lowered"
)


def _change(origin: str, target: str, ids: list[int] | None = None) -> dict[str, Any]:
    return {"origin": origin, "target": target, "at": _MOMENT, "ids": ids}
