"""When the sweep runs: every five minutes, in each process with a dispatcher."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from stepwell.dispatch.sweep import sweep_groups
from stepwell.service.part import Part
from stepwell.store import Database, Wake

# It reads every unfinished step, so it runs rarely; a step with a missing mark waits this long at most.
SWEEP_SECONDS: Final = 300.0
# A group with unprocessed marks cannot be checked. It is tried again soon, for one small statement each time, because
# a group with much work may have marks at almost any moment.
BUSY_SECONDS: Final = 5.0


class SweepPart(Part):
    """Sweeps all groups, or some, in a separate thread, so that no tick waits for it."""

    name = "sweep"

    def __init__(
        self, database: Database, groups: Collection[str] | None = None, seconds: float = SWEEP_SECONDS
    ) -> None:
        self._database = database
        self._groups = groups
        self._seconds = seconds
        self._repairs = 0

    def open(self) -> None:
        self._next_sweep = self._next = self._database.clock.monotonic() + self._seconds
        self._busy: list[str] = []

    def round(self, wakes: Collection[Wake]) -> float:
        now = self._database.clock.monotonic()
        if now >= self._next:
            is_whole = now >= self._next_sweep
            swept = sweep_groups(self._database, self._groups if is_whole else self._busy)
            self._repairs += len(swept.findings)
            self._busy = swept.busy
            now = self._database.clock.monotonic()
            if is_whole:
                self._next_sweep = now + self._seconds
            self._next = min(self._next_sweep, now + BUSY_SECONDS) if self._busy else self._next_sweep
        return self._next - now

    def report(self) -> str:
        return f"{self._repairs:,} repaired by the sweep" if self._repairs else ""
