"""A dispatcher: ticks the groups that have work, sleeps when none has. Any number of them may run at once."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection
from datetime import timedelta
from typing import Final

from stepwell.dispatch.sweep import sweep
from stepwell.dispatch.tick import BATCH_LIMIT, Tick, TickReport
from stepwell.enqueue.adopt import BATCH, adopt_new_steps
from stepwell.enqueue.create import Creator
from stepwell.model.errors import StepwellError
from stepwell.service.loop import run_loop
from stepwell.service.wakeup import StopSignal
from stepwell.share.limits import unblock_keys
from stepwell.store import Database, Transaction, Wake
from stepwell.store.engine import ticks

# An idle dispatcher looks again after this long: the floor under every wake-up.
IDLE_SECONDS: Final = 1.0
# A look that found nothing is not repeated before so many times as long as it took: beside busy workers, it takes long.
PATIENCE: Final = 4.0
MOST_PATIENCE_SECONDS: Final = 0.05
SWEEP_SECONDS: Final = 300.0
# Batches of new rows (plain SQL) that are adopted before the groups get their ticks again: 10,000 rows.
ADOPTIONS_AT_ONCE: Final = 20
MARKS_AT_ONCE: Final = 1_000  # that are looked at before the groups get their ticks


class Dispatcher:
    """Moves the steps of all groups, or of some."""

    def __init__(
        self,
        database: Database,
        creator: Creator,
        groups: Collection[str] | None = None,
        batch_limit: int = BATCH_LIMIT,
    ) -> None:
        self._database = database
        self._creator = creator
        self._groups = None if groups is None else frozenset(groups)
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._tick = Tick(database, self.owner, batch_limit)
        self._next_look = self._next_due = self._next_sweep = self._patient_until = 0.0

    def round(self, *, open_too: bool = True) -> list[TickReport]:
        """One tick of every group that has something to do; an empty list means that all is quiet.

        Looking for work reads and takes no lock, so an idle round writes nothing. With `open_too` off, steps that only
        wait for a free slot are no reason for a tick.
        """
        reports = [self._tick.run(group) for group in self._groups_with_work(open_too)]
        if any(report.locked_out for report in reports):
            return [report for report in reports if not report.locked_out]
        return reports

    def run_until_quiet(self, max_rounds: int = 100_000) -> list[TickReport]:
        """Tick as long as there is progress."""
        reports: list[TickReport] = []
        for _ in range(max_rounds):
            latest = self.round()
            reports += latest
            if not any(report.changed for report in latest):
                return reports
        raise StepwellError(f"the dispatcher made progress for {max_rounds} rounds without coming to rest")

    def run(self, stop: StopSignal) -> None:
        """Tick until told to stop. No trouble with the database ends this loop."""
        self._next_look = 0.0
        self._next_sweep = self._database.clock.monotonic() + SWEEP_SECONDS
        run_loop("dispatcher", self._database, stop, self._watch)

    def _watch(self, news: Collection[Wake]) -> float:
        """What was decided is looked at when it is told; for steps that are merely open, workers look themselves."""
        elapsed = self._database.clock.monotonic()
        whole = elapsed >= self._next_look
        if whole:
            self._next_look = elapsed + IDLE_SECONDS
        elif Wake.DECISIONS not in news and elapsed < self._next_due:
            return min(self._next_look, self._next_due) - elapsed
        elif elapsed < self._patient_until:
            self._next_due = min(self._next_due, self._patient_until)
            return min(self._next_look, self._patient_until) - elapsed
        reports = self.round(open_too=whole)
        if elapsed >= self._next_sweep:
            sweep(self._database, self._groups)
            self._next_sweep = self._database.clock.monotonic() + SWEEP_SECONDS
        if any(report.changed for report in reports):
            self._next_due = self._patient_until = 0.0
            return 0.0
        self._next_due = self._when_due()
        now = self._database.clock.monotonic()
        self._patient_until = now + min(PATIENCE * (now - elapsed), MOST_PATIENCE_SECONDS)
        return max(0.0, min(self._next_look, self._next_due) - now)

    def _when_due(self) -> float:
        """When the next delayed step is due, by the monotonic clock."""
        moment = self._database.read(ticks.next_due)
        elapsed = self._database.clock.monotonic()
        if moment is None:
            return elapsed + IDLE_SECONDS
        wait: timedelta = moment - self._database.now()
        return elapsed + wait.total_seconds()

    def _groups_with_work(self, open_too: bool) -> list[str]:
        found = self._probe(open_too)
        if found and self._groups is None and self._forget_idle_marks():
            found = self._probe(open_too)
        for _ in range(ADOPTIONS_AT_ONCE):
            if None not in found:
                break
            now = self._database.now()
            adopted = self._database.transact(lambda tx, now=now: adopt_new_steps(tx, self._creator, now))  # type: ignore[misc]
            passed = self._database.transact(lambda tx: unblock_keys(tx, self._database.now()))
            found = self._probe(open_too)
            if adopted < BATCH and not passed:
                break
        return [group for group in found if group is not None and (self._groups is None or group in self._groups)]

    def _forget_idle_marks(self) -> int:
        """Most steps that end decide nothing that was not decided with their end: no group needs a tick for that."""

        def work(tx: Transaction) -> int:
            ticks.keep_to_indexes(tx)
            return ticks.forget_idle_marks(tx, limit=MARKS_AT_ONCE)

        return self._database.transact(work)

    def _probe(self, open_too: bool) -> list[str | None]:
        now = self._database.now()
        probe = ticks.groups_with_work if open_too else ticks.groups_with_decisions

        def work(tx: Transaction) -> list[str | None]:
            ticks.keep_to_indexes(tx)
            return probe(tx, now=now)

        return self._database.read(work)
