"""Finding the rows of schedules, and locking one to change it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepwell.model.suggest import hint
from stepwell.schedule.engine import ScheduleEngine
from stepwell.schedule.errors import ScheduleNotFound
from stepwell.schedule.noticing import Noticing
from stepwell.schedule.rewinding import rewind
from stepwell.store import Database, Transaction
from stepwell.store.engine import schedules
from stepwell.store.engine.schedules import CronRow

_PAGE: Final = 500


def find(tx: Transaction, name: str) -> CronRow:
    """The row of a schedule; raises `ScheduleNotFound`."""
    row = schedules.cron_by_name(tx, name=name)
    if row is None:
        names = schedules.cron_names(tx)
        rest = f"; {hint(name, names, 'schedules')}" if names else "; there are none"
        raise ScheduleNotFound(f"no schedule {name!r}{rest}")
    return row


def find_and_lock(tx: Transaction, database: Database, engine: ScheduleEngine, name: str) -> CronRow:
    """The row, locked. What plain SQL changed in it is recorded first, and a clock that went back is allowed for."""
    row = schedules.lock_cron(tx, id=find(tx, name).id)
    if row is None:
        raise ScheduleNotFound(f"schedule {name!r} was deleted a moment ago")
    now = database.now()
    if rewind(tx, row, now):
        row = find(tx, name)
    if row.edited_at is not None:
        Noticing(engine).notice(tx, row, now)
        row = find(tx, name)
    return row


def all_rows(tx: Transaction) -> Iterator[CronRow]:
    """Every schedule, in the order in which they were created."""
    after = 0
    while True:
        page = schedules.all_crons(tx, after=after, limit=_PAGE)
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].id
