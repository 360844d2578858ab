"""When retention runs: a pass every ten minutes, in one of the processes that could make it, with pauses in between."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from stepwell.events import Events, RetentionBehind
from stepwell.model.errors import DatabaseUnavailable
from stepwell.model.this_process import unique_name
from stepwell.operate.retention.leftovers import delete_from_archive, remove_leftovers
from stepwell.operate.retention.options import RetentionOptions, days_before
from stepwell.operate.retention.retention import Retention
from stepwell.operate.retention.status import kept, status_of
from stepwell.operate.retention.walk import next_page
from stepwell.service.part import Part
from stepwell.store import Database, Transaction, Wake
from stepwell.store.engine import retention as verbs

_LOGGER: Final = logging.getLogger("stepwell.retention")

FIRST_PASS_SECONDS: Final = 3.0  # most processes find another one that makes the passes
# Another process takes over a pass whose holder has done nothing for this long.
HOLD_SECONDS: Final = 60.0
# After a batch it pauses for as long as the batch took: others get at least half of the time.
LONGEST_PAUSE_SECONDS: Final = 1.0
# Pages without anything to remove are only read: this many in a row, then it looks whether it has to stop.
PAGES_AT_ONCE: Final = 20


class RetentionPart(Part):
    """Makes passes while it holds the one row of `steps_retention`; the position of a pass is kept there, too."""

    name = "retention"
    first_round_after = FIRST_PASS_SECONDS

    def __init__(self, retention: Retention, database: Database, events: Events) -> None:
        self._retention = retention
        self._database = database
        self._events = events
        self._holder = unique_name()
        self._next = 0.0
        self._reported = False
        self._removed = 0
        self._is_recorded = False

    @property
    def _options(self) -> RetentionOptions:
        return self._retention.options

    def open(self) -> None:
        _LOGGER.info("retention: %s", self._options)
        self._is_recorded = False
        with suppress(DatabaseUnavailable):  # the first round tries again: an outage must not end the process
            self._record_settings()

    def _record_settings(self) -> None:
        options = self._options

        def record(tx: Transaction) -> None:
            verbs.ensure_row(tx)
            verbs.record_settings(
                tx,
                keep_days=kept(options.keep_days),
                archives=options.archive,
                archive_days=kept(options.archive_days),
                now=self._database.now(),
            )

        self._database.transact(record)
        self._is_recorded = True

    def close(self) -> None:
        with suppress(DatabaseUnavailable):  # then another process continues the pass after a minute
            if self._database.read(verbs.status).holder == self._holder:
                self._database.transact(lambda tx: verbs.release(tx, holder=self._holder))

    def round(self, wakes: Collection[Wake]) -> float:
        elapsed = self._database.clock.monotonic()
        if elapsed < self._next:
            return self._next - elapsed
        if not self._is_recorded:
            self._record_settings()
        pause = self._options.pause_seconds
        if not self._options.keeps_everything:
            pause = self._work()
        self._next = self._database.clock.monotonic() + pause
        return pause

    def _work(self) -> float:
        """One batch of a pass, if one is due and no other process makes it; returns when to look again."""
        now = self._database.now()
        row = self._database.read(verbs.status)
        if row.cutoff is None and row.ended_at is not None:
            ahead = self._options.pause_seconds - (now - row.ended_at).total_seconds()
            if 0 < ahead <= self._options.pause_seconds:
                return ahead
        if row.holder not in (None, self._holder) and row.held_until is not None and row.held_until > now:
            return min(self._options.pause_seconds, HOLD_SECONDS)
        started = self._database.clock.monotonic()
        if not self._database.transact(self._begin):
            return min(self._options.pause_seconds, HOLD_SECONDS)
        if self._batch():
            self._end()
            return self._options.pause_seconds
        self._report_if_behind()
        return min(self._database.clock.monotonic() - started, LONGEST_PAUSE_SECONDS)

    def _begin(self, tx: Transaction) -> bool:
        now = self._database.now()
        if not verbs.take_pass(tx, holder=self._holder, until=_later(now), now=now):
            return False
        if verbs.status(tx).cutoff is None:
            verbs.begin_pass(tx, holder=self._holder, cutoff=self._options.rule(now).before, now=now)
        return True

    def _batch(self) -> bool:
        """Whether the pass is complete."""
        row = self._database.read(verbs.status)
        assert row.cutoff is not None
        rule = self._options.rule(self._database.now(), before=row.cutoff)
        position = row.position or 0
        for _ in range(PAGES_AT_ONCE):
            page = next_page(self._database, position, rule, self._options.batch)
            removed = self._retention.remove_page(page, rule)
            position = page.last_id
            self._removed += removed.steps
            if page.is_last or removed.steps:
                break
        self._database.transact(
            lambda tx: verbs.advance(tx, holder=self._holder, until=_later(self._database.now()), position=position)
        )
        return page.is_last

    def _end(self) -> None:
        now = self._database.now()
        row = self._database.read(verbs.status)
        if row.cutoff is not None:
            remove_leftovers(self._database, row.cutoff)
        if self._options.archive:
            before = days_before(now, self._options.archive_days)
            while delete_from_archive(self._database, before, self._options.batch):
                self._database.let_writers_pass()
        self._database.transact(lambda tx: verbs.end_pass(tx, holder=self._holder, now=self._database.now()))
        self._reported = False
        if row.step_count:
            what = "archived" if self._options.archive else "deleted"
            _LOGGER.info("retention: %s %d workflows with %d steps", what, row.workflow_count, row.step_count)

    def _report_if_behind(self) -> None:
        if self._reported:
            return
        now = self._database.now()
        status = self._database.read(lambda tx: status_of(tx, self._options, now))
        if status.is_behind and status.last_run is not None:
            self._reported = True
            _LOGGER.warning(
                "retention does not keep up: up to %d steps are overdue, by %.0f hours; steps end faster than they are "
                "removed. Raise retention.batch, or keep them for a shorter time",
                status.backlog, status.late_seconds / 3_600,
            )  # fmt: skip
            self._events.publish(RetentionBehind(status.late_seconds, status.backlog, self._options.keep_days))

    def report(self) -> str:
        what = "archived" if self._options.archive else "deleted"
        return f"{self._removed:,} {what} by retention" if self._removed else ""


def _later(now: datetime) -> datetime:
    return now + timedelta(seconds=HOLD_SECONDS)
