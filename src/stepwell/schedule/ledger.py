"""The proof that the slot ledger is complete: every slot between two decided ones has its row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from stepwell.model.errors import CronParseError
from stepwell.schedule.definition import Definition, decoded, recorded, seed_of, timetable
from stepwell.store import Transaction
from stepwell.store.engine import schedules, slots
from stepwell.store.engine.schedules import CronRow
from stepwell.store.engine.slots import SlotRow

_PAGE: Final = 1_000
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LedgerGap:
    """A slot that the ledger does not have."""

    schedule: str
    slot: datetime

    def __str__(self) -> str:
        return f"schedule {self.schedule!r}: the ledger has no row for its slot {self.slot.isoformat()}"


@dataclass(frozen=True, slots=True)
class Period:
    """A definition that was in force after one moment, up to and including another."""

    definition: Definition
    after: datetime
    until: datetime


def periods(tx: Transaction, cron: CronRow, until: datetime) -> list[Period]:
    """The definitions of a schedule from the beginning to a moment, oldest first.

    If the clock went back, the moment of a change may lie before that of an earlier one: from there on, it counts.
    """
    starts: list[tuple[datetime, Definition]] = []
    for change in schedules.changes_of(tx, job_id=cron.id):
        while starts and starts[-1][0] >= change.changed_at:
            starts.pop()
        if change.after is not None:
            starts.append((change.changed_at, decoded(change.after)))
    if not starts:
        starts.append((cron.created_at, recorded(cron)))
    ends = [*(start for start, _ in starts[1:]), until]
    return [
        Period(definition, start, end) for (start, definition), end in zip(starts, ends, strict=True) if end > start
    ]


def ledger_gaps(tx: Transaction, cron: CronRow) -> Iterator[LedgerGap]:
    """Slots between two decided ones without a row."""
    if cron.ledger_from is None or cron.last_slot is None:
        return
    covered = _Covered(_rows(tx, cron))
    for period in periods(tx, cron, cron.last_slot):
        after, until = max(period.after, cron.ledger_from), min(period.until, cron.last_slot)
        try:
            times = timetable(period.definition.expression, period.definition.zone, seed_of(cron))
        except CronParseError:  # it had no slots
            continue
        slot = times.after(after)
        while slot is not None and slot <= until:
            end = covered.end_of(slot)
            if end is None:
                yield LedgerGap(cron.name, slot)
            slot = times.after(slot if end is None else min(max(end, slot), until))


class _Covered:
    """The ledger, read in order along with the slots."""

    def __init__(self, rows: Iterator[SlotRow]) -> None:
        self._rows = rows
        self._row = next(rows, None)

    def end_of(self, slot: datetime) -> datetime | None:
        """The last slot of the row that covers this one; None if no row does."""
        while self._row is not None and self._row.until_slot < slot:
            self._row = next(self._rows, None)
        return None if self._row is None or self._row.slot > slot else self._row.until_slot


def _rows(tx: Transaction, cron: CronRow) -> Iterator[SlotRow]:
    assert cron.ledger_from is not None
    assert cron.last_slot is not None
    first = cron.ledger_from
    while True:
        page = slots.slots_between(tx, job_id=cron.id, first=first, last=cron.last_slot, limit=_PAGE)
        yield from page
        if len(page) < _PAGE:
            return
        first = page[-1].until_slot + _MICROSECOND
