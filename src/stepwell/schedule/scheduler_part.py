"""When the scheduler runs: at the next slot, when a schedule is changed, and now and then to look for plain SQL."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Final

from stepwell.model.errors import DatabaseUnavailable
from stepwell.schedule.scheduler import Scheduler
from stepwell.service.part import Part
from stepwell.store import Database, Listener, Wake
from stepwell.store.wake import NoListener

# Where a wake-up does not say what it is about, one look per second at three indexes is cheaper than one per commit.
IMPRECISE_SECONDS: Final = 1.0


class SchedulerPart(Part):
    """Runs a scheduler."""

    name = "scheduler"

    def __init__(self, scheduler: Scheduler, database: Database) -> None:
        self._scheduler = scheduler
        self._database = database
        self._is_precise = False
        self._next = 0.0
        self._fired = 0

    def listen(self) -> Listener:
        listener = self._database.listen()
        self._is_precise = listener.is_precise
        if self._is_precise:
            return listener
        listener.close()
        return NoListener()

    def round(self, wakes: Collection[Wake]) -> float:
        elapsed = self._database.clock.monotonic()
        if Wake.SCHEDULES not in wakes and elapsed < self._next:
            return self._next - elapsed
        done = self._scheduler.round()
        self._fired += done.fired
        pause = done.pause if self._is_precise else min(done.pause, IMPRECISE_SECONDS)
        self._next = self._database.clock.monotonic() + pause
        return pause

    def close(self) -> None:
        with suppress(DatabaseUnavailable):
            self._scheduler.presence.end(self._database.now())

    def report(self) -> str:
        return f"{self._fired:,} schedule slot{'' if self._fired == 1 else 's'} fired" if self._fired else ""
