"""`expect_within`: an alarm when a slot has not succeeded in time, once per slot or gap."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from stepwell.events import Events, ScheduleSlotMissed
from stepwell.model.errors import CronParseError
from stepwell.schedule.definition import recorded, timetable_of
from stepwell.store import Database, Transaction
from stepwell.store.engine import slots
from stepwell.store.engine.schedules import CronRow


@dataclass(frozen=True, slots=True)
class Missed:
    """The newest slot of a schedule that should have succeeded by now, and the first one since the last success."""

    schedule: str
    slot: datetime
    first_slot: datetime
    expect_within: float


def missed(cron: CronRow, now: datetime) -> tuple[Missed | None, datetime | None]:
    """What is missing now, and when to look again."""
    definition = recorded(cron)
    if definition.expect_within is None or not definition.enabled:
        return None, None
    times = timetable_of(cron, definition)
    within = timedelta(seconds=definition.expect_within)
    since = max(filter(None, (cron.expected_from, cron.last_success)), default=cron.created_at)
    newest = times.latest(now - within, after=since)
    upcoming = times.after(since if newest is None else newest)
    later = None if upcoming is None else upcoming + within
    first = times.after(since)
    if newest is None or first is None:
        return None, later
    return Missed(cron.name, newest, first, definition.expect_within), later


class Alarms:
    def __init__(self, database: Database, events: Events) -> None:
        self._database = database
        self._events = events

    def raise_due(self, now: datetime, excluded: Collection[int], limit: int = 500) -> None:
        """Publish what is missing, and remember that it was."""

        def work(tx: Transaction) -> list[Missed]:
            found = []
            for cron in slots.lock_overdue(tx, now=now, excluded=list(excluded), limit=limit):
                try:
                    missing, later = missed(cron, now)
                except CronParseError:  # the next slot disables it
                    missing, later = None, None
                since = cron.expected_from if missing is None else missing.slot
                slots.expect(tx, id=cron.id, expected_from=since, expect_at=later)
                found += [] if missing is None else [missing]
            return found

        for each in self._database.transact(work):
            self._events.publish(ScheduleSlotMissed(each.schedule, each.slot, each.first_slot, each.expect_within, now))
