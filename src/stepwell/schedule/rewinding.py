"""The clock went back: what was skipped ahead of it is decided again, what fired stays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stepwell.schedule.definition import timetable, timetable_of
from stepwell.store import Transaction
from stepwell.store.engine import slots
from stepwell.store.engine.schedules import CronRow


def rewind(tx: Transaction, crons: Sequence[CronRow], now: datetime) -> int:
    """Withdraw what was decided about slots after now, of locked schedules; returns how many there were."""
    for cron in crons:
        slots.withdraw_skipped(tx, job_id=cron.id, now=now)
        gap = slots.gap_around(tx, job_id=cron.id, now=now)
        if gap is not None and gap.expression is not None and gap.zone is not None:
            times = timetable(gap.expression, gap.zone, cron.hash_seed or cron.name)
            slots.shorten_gap(tx, id=gap.id, until_slot=times.latest(now) or gap.slot)
        rows = [(cron.id, cron.revision, cron.last_slot, now, timetable_of(cron).after(now))]
        slots.advance(tx, rows=slots.rows_of(tx, rows))
    return len(crons)
