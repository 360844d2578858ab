"""`expect_within`: an alarm when a slot has not succeeded in time, once per slot or gap."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec

from stepwell.events import Events, ScheduleSlotMissed
from stepwell.model.errors import CronParseError
from stepwell.schedule.definition import Definition, recorded, timetable_of
from stepwell.store import Database, Transaction
from stepwell.store.engine import slots
from stepwell.store.engine.schedules import CronRow


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """The newest slot of a schedule that should have succeeded by now, and the first one since the last success."""

    schedule: str
    slot: datetime
    first_slot: datetime
    expect_within: float


def missed(cron: CronRow, now: datetime) -> Missed | None:
    """What is missing now, whether or not an alarm was raised about it."""
    definition = recorded(cron)
    if definition.expect_within is None or not definition.enabled:
        return None
    try:
        times = timetable_of(cron, definition)
    except CronParseError:  # the next slot disables it
        return None
    since = _since(cron)
    newest = times.latest(now - timedelta(seconds=definition.expect_within), after=since)
    first = None if newest is None else times.after(since)
    if newest is None or first is None:
        return None
    return Missed(schedule=cron.name, slot=newest, first_slot=first, expect_within=definition.expect_within)


def next_check(cron: CronRow, definition: Definition, after: datetime) -> datetime | None:
    """When the first slot after a moment should have succeeded."""
    if definition.expect_within is None or not definition.enabled:
        return None
    slot = timetable_of(cron, definition).after(after)
    return None if slot is None else slot + timedelta(seconds=definition.expect_within)


def _since(cron: CronRow) -> datetime:
    return max(filter(None, (cron.expected_from, cron.last_success)), default=cron.created_at)


class Alarms:
    """Raises alarms for what is missing."""

    def __init__(self, database: Database, events: Events) -> None:
        self._database = database
        self._events = events

    def raise_due(self, now: datetime, excluded: Collection[int], limit: int = 500) -> None:
        """Publish what is missing, and remember that it was."""

        def work(tx: Transaction) -> list[Missed]:
            crons = slots.lock_overdue(tx, now=now, excluded=list(excluded), limit=limit)
            return [found for cron in crons if (found := self._check(tx, cron, now)) is not None]

        for each in self._database.transact(work):
            self._events.publish(ScheduleSlotMissed(each.schedule, each.slot, each.first_slot, each.expect_within, now))

    @staticmethod
    def _check(tx: Transaction, cron: CronRow, now: datetime) -> Missed | None:
        try:
            missing = missed(cron, now)
            checked = _since(cron) if missing is None else missing.slot
            later = next_check(cron, recorded(cron), checked)
        except CronParseError:
            slots.expect(tx, id=cron.id, alarmed_slot=cron.alarmed_slot, expect_at=None)
            return None
        if missing is None or (cron.alarmed_slot is not None and missing.slot <= cron.alarmed_slot):
            slots.expect(tx, id=cron.id, alarmed_slot=cron.alarmed_slot, expect_at=later)
            return None
        slots.expect(tx, id=cron.id, alarmed_slot=missing.slot, expect_at=later)
        return missing
