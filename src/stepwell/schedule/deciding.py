"""Deciding: everything that is due of some schedules is decided and written, in one transaction.

The rows of the schedules are locked before they are looked at, and the last slot is compared when the next one is
stored: whatever runs at the same time, a slot is decided once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from stepwell.schedule.cron import CronExpression
from stepwell.schedule.decisions import NOT_CREATED, Due, Fired, Skipped
from stepwell.schedule.definition import Definition, recorded, timetable_of
from stepwell.schedule.errors import classified
from stepwell.schedule.executing import Executions, Wanted, delay_of, key_of
from stepwell.store import Transaction
from stepwell.store.engine import slots
from stepwell.store.engine.schedules import CronRow


@dataclass(slots=True)
class Decided:
    """What was done about the due slots of schedules."""

    fired: int = 0
    skipped: int = 0
    last_slots: dict[int, datetime] = field(default_factory=dict)  # by cron: decided up to here
    failed: dict[int, Exception] = field(default_factory=dict)  # by cron: nothing was written about it


@dataclass(frozen=True, slots=True)
class _Case:
    """One schedule while it is decided."""

    cron: CronRow
    definition: Definition
    times: CronExpression
    entries: Sequence[Fired | Skipped]
    wanted: Sequence[Wanted]
    until: datetime
    last_slot: datetime  # the newest slot that is decided; without any, the moment before which all were


class Decider:
    def __init__(self, executions: Executions, grace: Callable[[], timedelta]) -> None:
        self._executions = executions
        self._grace = grace

    def decide(
        self, tx: Transaction, crons: Sequence[CronRow], now: datetime, *, until: datetime | None = None
    ) -> Decided:
        """Decide the slots of locked schedules up to now, or up to an earlier moment.

        A schedule that cannot be decided is left as it is; the others are not affected.
        """
        done = Decided()
        cases = []
        busy, fired = self._busy(tx, crons), _fired_ahead(tx, crons)
        for cron in crons:
            try:
                cases.append(self._case(cron, busy.get(cron.id), fired.get(cron.id, ()), now, until or now))
            except Exception as error:
                done.failed[cron.id] = classified(error)
        self._write(tx, cases, now, done)
        return done

    def give_up(self, tx: Transaction, cron: CronRow, until: datetime, now: datetime, why: str) -> datetime:
        """Record due slots that cannot be created and are not tried again; returns the last slot."""
        definition = recorded(cron)
        times = timetable_of(cron, definition)
        after = cron.last_slot or until
        last = times.latest(until, after=after)
        first = times.after(after)
        if first is None or last is None:
            return after
        entry = Skipped(first, last, NOT_CREATED, why)
        self._write(tx, [_Case(cron, definition, times, [entry], (), until, last)], now, Decided())
        return last

    def _busy(self, tx: Transaction, crons: Sequence[CronRow]) -> dict[int, int]:
        """The executions that have not ended, of schedules whose slots must not overlap."""
        ids = [cron.id for cron in crons if not recorded(cron).allow_overlap]
        if not ids:
            return {}
        found = slots.live_executions(tx, ids=ids, keys=[key_of(id) for id in ids])
        return {row.job_id: row.execution_id for row in reversed(found)}

    def _case(
        self, cron: CronRow, busy: int | None, fired: Sequence[datetime], now: datetime, until: datetime
    ) -> _Case:
        definition = recorded(cron)
        times = timetable_of(cron, definition)
        after = until if cron.last_slot is None else cron.last_slot
        due = Due(times, definition, after, until, now, self._grace(), fired)
        entries = due.decide(busy, cron.disabled_by)
        wanted = [
            Wanted(
                cron,
                definition,
                entry.slot,
                entry.slot,
                self._executions.work_of(cron, definition, entry.slot, now),
                start_by=_start_by(cron, definition, entry.slot),
            )
            for entry in entries
            if isinstance(entry, Fired)
        ]
        decided = [*(entry.until for entry in entries), *(slot for slot in fired if slot <= until)]
        return _Case(cron, definition, times, entries, wanted, until, max(decided, default=after))

    def _write(self, tx: Transaction, cases: Sequence[_Case], now: datetime, done: Decided) -> None:
        wanted = [each for case in cases for each in case.wanted]
        created = self._executions.create(tx, wanted, now) if wanted else {}
        existing = {key: _existing(tx, *key) for each in wanted if (key := each.key) not in created}
        ledger = [row for case in cases for row in _ledger_rows(case, created | existing)]
        if ledger:
            slots.insert_slots(tx, rows=slots.rows_of(tx, ledger), now=now)
        moved = [case for case in cases if case.entries or case.cron.next_slot is not None]
        rows = [
            (case.cron.id, case.cron.revision, case.cron.last_slot, case.last_slot, _next_slot(case)) for case in moved
        ]
        if rows and slots.advance(tx, rows=slots.rows_of(tx, rows)) != len(rows):
            raise AssertionError("a locked schedule has changed")  # the transaction is rolled back
        done.fired += len(created)
        done.skipped += len(ledger) - len(wanted)
        done.last_slots |= {case.cron.id: case.last_slot for case in cases}


def _fired_ahead(tx: Transaction, crons: Sequence[CronRow]) -> dict[int, list[datetime]]:
    """Slots that fired although they are still to be decided, because the clock went back since."""
    found: dict[int, list[datetime]] = {}
    for row in slots.decided_ahead(tx, ids=[cron.id for cron in crons]):
        found.setdefault(row.job_id, []).append(row.slot)
    return found


def _start_by(cron: CronRow, definition: Definition, slot: datetime) -> datetime | None:
    if definition.start_deadline is None or definition.target == "workflow":
        return None
    return slot + delay_of(cron, definition, slot) + timedelta(seconds=definition.start_deadline)


def _next_slot(case: _Case) -> datetime | None:
    return case.times.after(max(case.until, case.last_slot)) if case.definition.enabled else None


def _existing(tx: Transaction, cron: int, slot: datetime) -> int:
    """The execution that plain SQL wrote for a slot."""
    found = slots.execution_at(tx, job_id=cron, scheduled_time=slot)
    assert found is not None
    return found


def _ledger_rows(case: _Case, executions: dict[tuple[int, datetime], int]) -> list[tuple[Any, ...]]:
    cron = case.cron.id
    rows: list[tuple[Any, ...]] = []
    for entry in case.entries:
        if isinstance(entry, Fired):
            execution = executions[cron, entry.slot]
            rows.append((cron, entry.slot, entry.slot, "fired", None, None, execution, None, None))
        else:
            gap = (case.times.text, case.times.zone) if entry.slot != entry.until else (None, None)
            rows.append((cron, entry.slot, entry.until, "skipped", entry.reason, entry.detail, None, *gap))
    return rows
