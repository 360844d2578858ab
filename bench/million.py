"""`python -m bench.million`: what each question of the dashboard costs beside a million finished steps.

For each question: the time of the fifth-fastest of twenty answers, and what the database read for one. On PostgreSQL
that is rows of tables and entries of indexes; SQLite counts no rows, so it is the instructions of its machine (some ten
for each row).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from bench.databases import KINDS
from bench.peers.servers import fresh, scratch
from bench.rows import ACTION, behind_the_triggers
from bench.screens import PAGES
from bench.shapes import blocked, finished
from stepwell import Stepwell
from stepwell.store import Transaction

T = TypeVar("T")
Question = Callable[[Stepwell], Any]

FINISHED: Final = 1_000_000
WAITING: Final = 1_000
FAILED: Final = 1_000
BUSY: Final = 1  # the step with an eighth of all steps as its children
TASKS: Final = 20_000  # steps of tasks of main processes, in the middle
FIRST_TASK: Final = 50_000
NOTHING: Final = "00000000-0000-7000-8000-000000000000"

QUESTIONS: Final[dict[str, Question]] = {
    "totals by state": lambda app: app.figures.totals(),
    "hosts": lambda app: app.figures.hosts(),
    "active classes": lambda app: app.figures.classes(),
    "groups": lambda app: app.figures.groups(),
    "queues": lambda app: app.figures.queues(),
    "minutes of an hour": lambda app: app.figures.minutes(),
    "minutes of a day": lambda app: app.figures.minutes(timedelta(days=1)),
    "causes of failures": lambda app: app.figures.causes(),
    "shares of tasks": lambda app: app.main_processes.shares(),
    "oldest ready": lambda app: app.figures.oldest_ready(),
    "estimate": lambda app: app.figures.estimate(),
    "`stepwell stats`": lambda app: app.stats(),
    "steps, newest": lambda app: app.lists.steps(),
    "steps --state Pending": lambda app: app.lists.steps(state="Pending"),
    "steps --state Dispatched": lambda app: app.lists.steps(state="Dispatched"),
    "steps --state Running": lambda app: app.lists.steps(state="Running"),
    "steps --state Completed": lambda app: app.lists.steps(state="Completed"),
    "steps --state Skipped": lambda app: app.lists.steps(state="Skipped"),
    "steps --state Failed": lambda app: app.lists.steps(state="Failed"),
    "steps --state Cancelled": lambda app: app.lists.steps(state="Cancelled"),
    "steps --status ready": lambda app: app.lists.steps(status="ready"),
    "steps --status delayed": lambda app: app.lists.steps(status="delayed"),
    "steps --workflow": lambda app: app.lists.steps(workflow=NOTHING),
    "steps --relatable": lambda app: app.lists.steps(relatable=("order", 42)),
    "steps by block": lambda app: app.lists.steps(block=NOTHING),
    "steps by parent": lambda app: app.lists.steps(parent=BUSY),
    "steps by parent, a later page": lambda app: app.lists.steps(parent=BUSY, before=100_000),
    "steps by parent that Failed": lambda app: app.lists.steps(parent=BUSY, state="Failed"),
    "steps of a large workflow": lambda app: app.lists.steps(workflow=app.step(BUSY).uuid),
    "steps by an argument that none has": lambda app: app.lists.steps(args={"customer.id": 7}),
    "count, state Completed": lambda app: app.lists.count(state="Completed"),
    "count by an argument that none has": lambda app: app.lists.count(args={"customer.id": 7}),
}


def fill(app: Stepwell, steps: int, few: int = WAITING) -> None:
    """So many finished steps, and beside them some that wait and some that failed."""
    with behind_the_triggers(app.database) as loader:
        finished(loader, steps, loader.parent("Running"))
        blocked(loader, few, loader.parent("Running"))
        for _ in range(few):
            loader.step("Failed")
        for _ in range(few // 10):
            loader.step("Pending", status="open")
            loader.step("Pending", status="delayed")
    app.database.transact(_make_tasks)
    app.database.transact(lambda tx: _add_minutes(tx, app.database.now()))
    if app.database.dialect == "sqlite":
        app.database.transact(lambda tx: tx.fetch("ANALYZE", {}))
    else:
        import psycopg

        with psycopg.connect(app.database.url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")


def _make_tasks(tx: Transaction) -> None:
    """Some of the finished steps were tasks of a main process."""
    tx.execute(
        "UPDATE steps SET belongs_to = 'process', label = 'Sync' "
        f"WHERE id BETWEEN {FIRST_TASK} AND {FIRST_TASK + TASKS}",
        {},
    )


def _add_minutes(tx: Transaction, now: datetime) -> None:
    """A day of throughput and latency."""
    kinds = [("created", 0), ("Running", 0), ("Completed", 0), ("Failed", 0)]
    kinds += [(kind, bucket) for kind in ("wait", "run") for bucket in range(4)]
    first = now.replace(second=0, microsecond=0) - timedelta(days=1)
    tx.insert(
        "steps_minutes",
        ("minute", "kind", "bucket"),
        [(tx.timestamp(first + timedelta(minutes=at)), *kind) for at in range(1, 24 * 60) for kind in kinds],
        {"action": ACTION, "number": 10},
    )


def reads_of(app: Stepwell, question: Question) -> int:
    """What the database reads for an answer: rows and entries of indexes (PostgreSQL), or instructions (SQLite)."""
    if app.database.dialect == "sqlite":
        return _instructions(app, question)
    with _counting(app) as counted:
        question(app)
    return sum(counted)


@contextmanager
def _counting(app: Stepwell) -> Iterator[list[int]]:
    """The rows that each reading transaction returned, from tables and from indexes."""
    counted: list[int] = []
    database, read = app.database, app.database.read

    def counting(work: Callable[[Transaction], T]) -> T:
        def with_counts(tx: Transaction) -> T:
            before = _returned(tx)
            result = work(tx)
            counted.append(_returned(tx) - before)
            return result

        return read(with_counts)

    database.read = counting  # type: ignore[method-assign]
    try:
        yield counted
    finally:
        del database.read


def _returned(tx: Transaction) -> int:
    [row] = tx.fetch(
        "SELECT sum(pg_stat_get_xact_tuples_returned(c.oid)) AS rows FROM pg_class c "
        "WHERE c.relkind IN ('r', 'i') AND c.relname LIKE 'step%%'",
        {},
    )
    return int(row["rows"])


def _instructions(app: Stepwell, question: Question) -> int:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    database: Any = app.database
    connections = [database.connections.writer(), database.connections.reader()]
    for connection in connections:
        connection.set_progress_handler(step, 1)
    try:
        question(app)
    finally:
        for connection in connections:
            connection.set_progress_handler(None, 0)
    return count


def milliseconds(app: Stepwell, question: Question, times: int = 20) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        question(app)
        taken.append(1e3 * (time.perf_counter() - began))
    return sorted(taken)[times // 4]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.million", description=__doc__)
    parser.add_argument("--steps", type=int, default=FINISHED)
    parser.add_argument("--database", action="append", choices=KINDS, help="this one only (default: both)")
    options = parser.parse_args(arguments)
    questions = {**QUESTIONS, **PAGES}
    found: dict[str, list[str]] = {name: [] for name in questions}
    databases = options.database or list(KINDS)
    for database in databases:
        prefix = "sqlite:///" if database == "sqlite" else ""
        with scratch() as place, fresh(database, Path(place)) as url, Stepwell(f"{prefix}{url}") as app:
            fill(app, options.steps)
            for name, question in questions.items():
                question(app)
                found[name] += [f"{milliseconds(app, question):.1f}", f"{reads_of(app, question):,}"]
    heads = [f"{database}: {what}" for database in databases for what in ("ms", "read")]
    print(f"| question | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for name, cells in found.items():
        print(f"| {name} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
