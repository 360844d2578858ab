"""When a dispatcher polls: on a wake-up for decisions, when a delayed step is due, and once a second."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from stepwell.dispatch.dispatcher import Dispatcher
from stepwell.service.part import Part
from stepwell.store import Database, Wake
from stepwell.store.wake import Listener

# An idle dispatcher polls this often, in case a wake-up was lost.
IDLE_SECONDS: Final = 1.0
# After a poll that found nothing, wait four times as long as it took: next to busy workers, polling is slow.
EMPTY_POLL_FACTOR: Final = 4.0
MAX_EMPTY_POLL_SECONDS: Final = 0.05
# Lets a worker in the same process poll first after a commit: two polls at once delay each other.
WORKER_HEAD_START_SECONDS: Final = 0.002


class DispatcherPart(Part):
    """Runs a dispatcher."""

    name = "dispatcher"

    def __init__(self, dispatcher: Dispatcher, database: Database) -> None:
        self._dispatcher = dispatcher
        self._database = database
        self._next_poll = self._next_due = self._not_before = 0.0
        self._ticks = self._dispatched = 0

    def listen(self) -> Listener:
        listener = self._database.listen()
        listener.alert_seconds = WORKER_HEAD_START_SECONDS
        return listener

    def round(self, wakes: Collection[Wake]) -> float:
        """Poll for decisions on a wake-up; steps that are merely open are found by workers themselves."""
        started = self._database.clock.monotonic()
        is_full = started >= self._next_poll
        if is_full:
            self._next_poll = started + IDLE_SECONDS
        elif Wake.DECISIONS not in wakes and started < self._next_due:
            return min(self._next_poll, self._next_due) - started
        elif started < self._not_before:
            self._next_due = min(self._next_due, self._not_before)
            return min(self._next_poll, self._not_before) - started
        reports = self._dispatcher.round(open_too=is_full)
        self._ticks += len(reports)
        self._dispatched += sum(report.dispatched for report in reports)
        if any(report.changed for report in reports):
            self._next_due = self._not_before = 0.0
            return 0.0
        self._next_due = self._when_due()
        now = self._database.clock.monotonic()
        self._not_before = now + min(EMPTY_POLL_FACTOR * (now - started), MAX_EMPTY_POLL_SECONDS)
        return max(0.0, min(self._next_poll, self._next_due) - now)

    def _when_due(self) -> float:
        """When the next delayed step is due, by the monotonic clock."""
        due = self._dispatcher.next_due()
        now = self._database.clock.monotonic()
        return now + (IDLE_SECONDS if due is None else (due - self._database.now()).total_seconds())

    def report(self) -> str:
        return f"{self._dispatched:,} dispatched in {self._ticks:,} tick{'' if self._ticks == 1 else 's'}"
