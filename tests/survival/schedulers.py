"""Scheduler processes on one database, in a time that runs fast; each kills itself between two of its statements.

    python -m tests.survival.schedulers URL SEED

This process forks them and replaces those that die, until every slot is decided. It prints how many died.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from stepwell import Stepwell
from stepwell.store.postgres.transaction import PostgresTransaction
from stepwell.store.sqlite.transaction import SqliteTransaction

PROCESSES = 8
SCHEDULES, MINUTES = 20, 10
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
END = FIRST + timedelta(minutes=MINUTES, seconds=30)
SPEED = 150.0  # a minute takes 0.4 s, or as long as the slowest process needs for a round
STEP_SECONDS = 3.0  # by which time goes on
DEATHS = 16  # of which each process makes at most one
# Those of the transaction that decides slots.
KILLS = {"lock_due", "insert_executions", "link_executions", "insert_slots", "advance"}


class SharedNumbers:
    """Numbers that forked processes share."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, 8 * count)

    def __getitem__(self, index: int) -> float:
        value: float = struct.unpack_from("d", self._memory, 8 * index)[0]
        return value

    def __setitem__(self, index: int, value: float) -> None:
        struct.pack_into("d", self._memory, 8 * index, value)


class FastClock:
    """The same time in every process. It waits at each minute until every process has made a round in it."""

    def __init__(self) -> None:
        self._seconds: Final = SharedNumbers(1)
        self._rounds: Final = SharedNumbers(PROCESSES)
        self._waits_for: set[int] = set()

    def now(self) -> datetime:
        return FIRST + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self._seconds[0]

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / SPEED)

    def note_round(self, process: int) -> None:
        """Called by each scheduler: it has made one more round."""
        self._rounds[process] += 1

    def step(self) -> None:
        """Called by the process that forked them."""
        self._waits_for = {number for number in self._waits_for if self._rounds[number] < 2}
        before, after = self._seconds[0] // 60, (self._seconds[0] + STEP_SECONDS) // 60
        if after > before:
            if self._waits_for:
                return
            for number in range(PROCESSES):
                self._rounds[number] = 0  # of two rounds, one began after this
            self._waits_for = set(range(PROCESSES))
        self._seconds[0] += STEP_SECONDS


def app_on(url: str, clock: FastClock) -> Stepwell:
    app = Stepwell(url, clock=clock)

    @app.job()
    def report() -> None: ...

    return app


def schedule(url: str, clock: FastClock, number: int, dies_after: int | None) -> None:
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
    with app_on(url, clock) as app:
        scheduler = app.schedules.scheduler()
        while app.database.now() < END:
            pause = scheduler.round().pause
            clock.note_round(number)
            clock.sleep(min(pause, 5.0 + number))


def main(url: str, seed: int) -> None:
    draw = random.Random(seed)
    clock = FastClock()
    with app_on(url, clock) as app:
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
                    schedule(url, clock, number, dies_after)
                finally:
                    os._exit(0)
            running[pid] = number
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            clock.step()
            time.sleep(STEP_SECONDS / SPEED)
            continue
        number = running.pop(pid)
        if os.WIFSIGNALED(status):
            deaths += 1
            pending.append(number)
    print(deaths)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
