"""The clock went back: what was skipped ahead of it is decided again, what fired stays."""

from __future__ import annotations

from datetime import datetime

from stepwell.model.actors import SCHEDULER
from stepwell.schedule.definition import recorded, seed_of, timetable, timetable_of
from stepwell.schedule.editing import Author, record
from stepwell.schedule.options import CLOCK_TOLERANCE
from stepwell.store import Transaction
from stepwell.store.engine import schedules, slots
from stepwell.store.engine.schedules import CronRow


def is_ahead(cron: CronRow, now: datetime) -> bool:
    """Whether slots after now have been decided: the clock went back since."""
    return cron.last_slot is not None and cron.last_slot > now + CLOCK_TOLERANCE


def rewind(tx: Transaction, cron: CronRow, now: datetime) -> bool:
    """Withdraw what was decided about slots after now, of a locked schedule; returns whether there was anything."""
    if not is_ahead(cron, now):
        return False
    slots.withdraw_skipped(tx, job_id=cron.id, now=now)
    gap = slots.gap_around(tx, job_id=cron.id, now=now)
    if gap is not None and gap.expression is not None and gap.zone is not None:
        times = timetable(gap.expression, gap.zone, seed_of(cron))
        slots.shorten_gap(tx, id=gap.id, until_slot=times.latest(now) or gap.slot)
    upcoming = None if cron.next_slot is None else timetable_of(cron).after(now)
    slots.advance(tx, rows=slots.rows_of(tx, [(cron.id, cron.revision, cron.last_slot, now, upcoming)]))
    if any(change.changed_at > now for change in schedules.changes_of(tx, job_id=cron.id)):
        by = Author(SCHEDULER, "the clock went back", now)  # the definition was changed ahead: from now on it counts
        record(tx, cron, "rewound", by, recorded(cron), recorded(cron))
    return True
