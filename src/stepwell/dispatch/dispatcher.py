"""A dispatcher: ticks the groups that have work. Any number of them may run at once."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import Final, Unpack

from stepwell.dispatch.log import TickLog
from stepwell.dispatch.tick import Tick, TickOptions, TickReport
from stepwell.enqueue.adopt import BATCH
from stepwell.enqueue.adopt_each import adopt_rows
from stepwell.enqueue.create import Creator
from stepwell.model.errors import StepwellError
from stepwell.model.this_process import unique_name
from stepwell.share.keys import unblock_keys
from stepwell.store import Database, Transaction
from stepwell.store.engine import ticks

# Batches of rows from plain SQL that are adopted before the groups are ticked again: 10,000 rows.
ADOPTION_BATCHES_PER_ROUND: Final = 20
BREAKER_LOG_SECONDS: Final = 60.0  # a pause may last for days, and each entry has four lines
BREAKER_CHECK_SECONDS: Final = 5.0  # an idle round asks no more than it must
IDLE_MARKS_PER_ROUND: Final = 1_000  # checked for deletion before the groups are ticked


class Dispatcher:
    """Ticks all groups, or some."""

    def __init__(
        self,
        database: Database,
        creator: Creator,
        groups: Collection[str] | None = None,
        **options: Unpack[TickOptions],
    ) -> None:
        self._database = database
        self._creator = creator
        self.groups = None if groups is None else frozenset(groups)
        self.owner = unique_name()
        self._tick = Tick(database, self.owner, **options)
        self._next_breaker_log = 0.0

    def round(self, *, open_too: bool = True) -> list[TickReport]:
        """One tick of every group with work; returns an empty list if there was none.

        The search for work only reads and takes no lock, so an idle round writes nothing. Without `open_too`, steps
        that only wait for a free slot are no reason for a tick.
        """
        groups = self._groups_with_work(open_too)
        if open_too and not groups:
            self._log_breaker()
        reports = [self._tick.run(group) for group in groups]
        if any(report.locked_out for report in reports):
            return [report for report in reports if not report.locked_out]
        return reports

    def run_until_quiet(self, max_rounds: int = 100_000) -> list[TickReport]:
        """Tick until there is no more progress."""
        reports: list[TickReport] = []
        for _ in range(max_rounds):
            latest = self.round()
            reports += latest
            if not any(report.changed for report in latest):
                return reports
        raise StepwellError(f"the dispatcher was still making progress after {max_rounds} rounds")

    def next_due(self) -> datetime | None:
        """When the next delayed step is due."""
        return self._database.read(ticks.next_due)

    def _groups_with_work(self, open_too: bool) -> list[str]:
        found = self._probe(open_too)
        if found and self.groups is None and self._delete_idle_marks():
            found = self._probe(open_too)
        for _ in range(ADOPTION_BATCHES_PER_ROUND):
            if None not in found:
                break
            adopted = adopt_rows(self._database, self._creator)
            unblocked = self._database.transact(lambda tx: unblock_keys(tx, self._database.now()))
            found = self._probe(open_too)
            if adopted < BATCH and not unblocked:
                break
        return [group for group in found if group is not None and (self.groups is None or group in self.groups)]

    def _log_breaker(self) -> None:
        """Steps that only the breaker holds back need no tick, but whoever reads the log should know of them."""
        now = self._database.clock.monotonic()
        if now < self._next_breaker_log:
            return
        held = self._database.read(ticks.groups_held_by_breaker)
        is_held = any(self.groups is None or group in self.groups for group in held)
        if is_held:
            TickLog().breaker_off()
        self._next_breaker_log = now + (BREAKER_LOG_SECONDS if is_held else BREAKER_CHECK_SECONDS)

    def _delete_idle_marks(self) -> int:
        """Most steps that end leave nothing to decide: their groups need no tick."""
        return self._database.transact(partial(ticks.delete_idle_marks, limit=IDLE_MARKS_PER_ROUND))

    def _probe(self, open_too: bool) -> list[str | None]:
        now = self._database.now()
        probe = ticks.groups_with_work if open_too else ticks.groups_with_decisions

        def work(tx: Transaction) -> list[str | None]:
            ticks.keep_to_indexes(tx)
            return probe(tx, now=now)

        return self._database.read(work)
