"""What a scheduler does when something is due. One schedule that fails does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from stepwell.events import Events
from stepwell.model.actors import SCHEDULER
from stepwell.model.errors import CronParseError
from stepwell.model.reasons import START_DEADLINE
from stepwell.schedule.alarms import Alarms
from stepwell.schedule.deciding import Decided
from stepwell.schedule.definition import recorded
from stepwell.schedule.engine import ScheduleEngine
from stepwell.schedule.errors import ConnectionPoolExhaustedError, classified
from stepwell.schedule.noticing import Noticing
from stepwell.schedule.options import CLOCK_TOLERANCE, Options
from stepwell.schedule.rewinding import rewind
from stepwell.schedule.round import Round
from stepwell.store import Database, Transaction
from stepwell.store.engine import executions, schedules, slots
from stepwell.store.engine.schedules import CronRow
from stepwell.store.engine.slots import Survey

_LOGGER: Final = logging.getLogger("stepwell.scheduler")

# Five thousand slots of one minute are ten transactions; each holds the write lock of SQLite for some 0.2 s
# (bench/schedules.py).
BATCH: Final = 500


class DueWork:
    """Decides what is due, and takes note of what plain SQL changed."""

    def __init__(self, database: Database, engine: ScheduleEngine, events: Events, options: Options) -> None:
        self._database = database
        self._engine = engine
        self._options = options
        self._noticing = Noticing(engine)
        self._alarms = Alarms(database, events)
        self._left_out: dict[int, datetime] = {}  # schedules that failed, until when

    @property
    def has_left_out(self) -> bool:
        return bool(self._left_out)

    def do(self, found: Survey, now: datetime, done: Round) -> None:
        self._left_out = {cron: until for cron, until in self._left_out.items() if _lies_ahead(until, now)}
        if found.edited:
            self._in_batches(schedules.lock_edited, self._notice, now, done)
        if found.ahead:
            self._rewind()
        if found.due or found.edited:
            self._in_batches(partial(slots.lock_due, now=now), self._decide, now, done)
        if found.late:
            self._skip_late(now)
        if found.overdue:
            self._alarms.raise_due(now, self._left_out)

    def _in_batches(
        self,
        lock: Callable[..., list[CronRow]],
        work: Callable[[Transaction, Sequence[CronRow], datetime, Round], None],
        now: datetime,
        done: Round,
    ) -> None:
        """Batch after batch, each in one transaction; the rows of one that fails, one by one."""
        while True:
            crons: list[CronRow] = []

            def run(tx: Transaction, limit: int = BATCH, crons: list[CronRow] = crons) -> Round:
                crons[:] = lock(tx, excluded=[*self._left_out], limit=limit)
                part = Round()
                work(tx, crons, self._database.now(), part)  # this process may have been suspended since the survey
                return part

            try:
                part = self._database.transact(run)
            except Exception as error:
                if _is_outage(error) or not crons:
                    raise
                self._one_by_one([*crons], work, now, done)
            else:
                done.add(part)
            if len(crons) < BATCH:
                return

    def _one_by_one(
        self,
        crons: Sequence[CronRow],
        work: Callable[[Transaction, Sequence[CronRow], datetime, Round], None],
        now: datetime,
        done: Round,
    ) -> None:
        for cron in crons:

            def run(tx: Transaction, id: int = cron.id) -> Round:
                part = Round()
                row = schedules.lock_cron(tx, id=id)
                if row is not None and (row.edited_at is not None or _is_due(row, now)):
                    work(tx, [row], self._database.now(), part)
                return part

            try:
                done.add(self._database.transact(run))
            except Exception as error:
                if _is_outage(error):
                    raise
                self._leave_out(cron, classified(error), now, done)

    def _decide(self, tx: Transaction, crons: Sequence[CronRow], now: datetime, done: Round) -> None:
        able = [cron for cron in crons if self._is_able(cron, now)]
        decided: Decided = self._engine.decider.decide(tx, able, now)
        done.fired += decided.fired
        done.skipped += decided.skipped
        by_id = {cron.id: cron for cron in able}
        for cron_id, error in decided.failed.items():
            if isinstance(error, CronParseError):
                self._noticing.disable(tx, by_id[cron_id], str(error), now)
                done.noticed += 1
            else:
                self._leave_out(by_id[cron_id], error, now, done)

    def _is_able(self, cron: CronRow, now: datetime) -> bool:
        """A schedule of a workflow waits for a scheduler that has the code."""
        if self._engine.executions.can_start(cron, recorded(cron)):
            return True
        self._left_out[cron.id] = now + timedelta(seconds=self._options.poll_interval_seconds)
        return False

    def _notice(self, tx: Transaction, crons: Sequence[CronRow], now: datetime, done: Round) -> None:
        for cron in crons:
            self._noticing.notice(tx, cron, now)
            done.noticed += 1

    def _rewind(self) -> None:
        """The clock went back."""

        def work(tx: Transaction) -> int:
            found = slots.lock_ahead(tx, ahead=self._database.now() + CLOCK_TOLERANCE, limit=BATCH)
            now = self._database.now()  # after the locks: a process that was suspended must not take its past for now
            return sum(rewind(tx, cron, now) for cron in found)

        while self._database.transact(work) == BATCH:
            pass

    def _skip_late(self, now: datetime) -> None:
        """Skip steps that have not begun by the deadline of their slot."""

        def work(tx: Transaction) -> int:
            late = executions.late_executions(tx, now=now, limit=BATCH)
            for each in late:
                executions.skip_late(tx, id=each.step_id, actor=SCHEDULER, reason=START_DEADLINE, now=now)
            return len(late)

        while self._database.transact(work) == BATCH:
            pass

    def _leave_out(self, cron: CronRow, error: Exception, now: datetime, done: Round) -> None:
        """Isolate an error: this schedule is tried again in the next cycle."""
        seconds = self._options.poll_interval_seconds
        self._left_out[cron.id] = now + timedelta(seconds=seconds)
        done.failed += 1
        _LOGGER.error(
            "schedule %r failed; retrying in %g s: %s: %s", cron.name, seconds, type(error).__name__, error,
            exc_info=error.__cause__,
        )  # fmt: skip


def _lies_ahead(until: datetime, now: datetime) -> bool:
    return until > now and until - now < timedelta(days=1)  # unless the clock went back since


def _is_due(row: CronRow, now: datetime) -> bool:
    return row.next_slot is not None and row.next_slot <= now


def _is_outage(error: Exception) -> bool:
    """The whole database, not one schedule: the loop waits, and repeats the round."""
    return isinstance(classified(error), ConnectionPoolExhaustedError)
