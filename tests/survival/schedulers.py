"""Scheduler processes on one database, in a time that runs fast; each kills itself between two of its statements.

    python -m tests.survival.schedulers URL SEED

This process forks them and replaces those that die, until every slot is decided. It prints how many died.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from stepwell import Stepwell
from stepwell.store.postgres.transaction import PostgresTransaction
from stepwell.store.sqlite.transaction import SqliteTransaction

PROCESSES = 8
SCHEDULES, MINUTES = 20, 10
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
END = FIRST + timedelta(minutes=MINUTES, seconds=30)
SPEED = 150.0  # a minute takes 0.4 s
DEATHS = 16  # of which each process makes at most one
# Those of the transaction that decides slots.
KILLS = {"lock_due", "insert_executions", "link_executions", "insert_slots", "advance"}


class FastClock:
    """The same time in every process."""

    def __init__(self, started: float) -> None:
        self._started = started

    def now(self) -> datetime:
        return FIRST + timedelta(seconds=(time.time() - self._started) * SPEED)

    def monotonic(self) -> float:
        return (time.time() - self._started) * SPEED

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / SPEED)


def app_on(url: str, started: float) -> Stepwell:
    app = Stepwell(url, clock=FastClock(started))

    @app.job()
    def report() -> None: ...

    return app


def schedule(url: str, started: float, number: int, dies_after: int | None) -> None:
    """One scheduler, which dies after this many statements that decide slots."""
    left = dies_after

    def dying(method: Any) -> Any:
        def run(self: Any, statement: Any, *arguments: Any) -> Any:
            nonlocal left
            result = method(self, statement, *arguments)
            if left is not None and statement.name in KILLS:
                left -= 1
                if left <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)  # not even a `finally` runs
            return result

        return run

    for kind in (SqliteTransaction, PostgresTransaction):
        for name in ("query", "change"):
            setattr(kind, name, dying(getattr(kind, name)))
    with app_on(url, started) as app:
        scheduler = app.schedules.scheduler()
        while app.database.now() < END:
            pause = scheduler.round().pause
            app.clock.sleep(min(pause, 5.0 + number))


def main(url: str, seed: int) -> None:
    draw = random.Random(seed)
    started = time.time()
    with app_on(url, started) as app:
        for number in range(SCHEDULES):
            app.schedules.create(f"s{number}", "* * * * *", "report", who="test", misfire="all", misfire_limit=1_000)
    deaths = 0
    running: dict[int, int] = {}
    pending = list(range(PROCESSES))
    while pending or running:
        while pending:
            number = pending.pop()
            dies_after = draw.randint(1, 8) if deaths + len(running) < DEATHS else None
            if (pid := os.fork()) == 0:
                try:
                    schedule(url, started, number, dies_after)
                finally:
                    os._exit(0)
            running[pid] = number
        pid, status = os.wait()
        number = running.pop(pid)
        if os.WIFSIGNALED(status):
            deaths += 1
            pending.append(number)
    print(deaths)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
