"""A dispatcher: ticks the groups that have work, sleeps when none has. Any number of them may run at once."""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
import threading
from collections.abc import Collection
from typing import Final

from stepwell.dispatch.tick import BATCH_LIMIT, Tick, TickReport
from stepwell.enqueue.adopt import BATCH, adopt_new_steps
from stepwell.enqueue.create import Creator
from stepwell.model.errors import StepwellError
from stepwell.operate.sweep import sweep
from stepwell.store import Database, Row, Transaction

_LOGGER: Final = logging.getLogger("stepwell.dispatcher")

# An idle dispatcher looks again after this long: the floor under every wake-up.
IDLE_SECONDS: Final = 1.0
# After trouble with the database: doubled each time, with jitter, up to the second figure.
OUTAGE_SECONDS: Final = (0.5, 30.0)
SWEEP_SECONDS: Final = 300.0
# Batches of new rows (plain SQL) that are adopted before the groups get their ticks again: 10,000 rows.
ADOPTIONS_AT_ONCE: Final = 20


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

    def round(self) -> list[TickReport]:
        """One tick of every group that has something to do; an empty list means that all is quiet.

        Looking for work reads and takes no lock, so an idle round writes nothing.
        """
        reports = [self._tick.run(group) for group in self._groups_with_work()]
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

    def run(self, stop: threading.Event) -> None:
        """Tick until told to stop. No trouble with the database ends this loop."""
        pause, next_sweep = OUTAGE_SECONDS[0], self._database.clock.monotonic() + SWEEP_SECONDS
        while not stop.is_set():
            try:
                progress = any(report.changed for report in self.round())
                if self._database.clock.monotonic() >= next_sweep:
                    sweep(self._database, self._groups)
                    next_sweep = self._database.clock.monotonic() + SWEEP_SECONDS
                pause = OUTAGE_SECONDS[0]
            except Exception:
                _LOGGER.exception("the dispatcher met trouble; it goes on in about %.1f s", pause)
                stop.wait(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, OUTAGE_SECONDS[1])
                continue
            if not progress:
                stop.wait(IDLE_SECONDS)

    def _groups_with_work(self) -> list[str]:
        found = self._probe()
        for _ in range(ADOPTIONS_AT_ONCE):
            if None not in found:
                break
            now = self._database.now()
            adopted = self._database.transact(lambda tx, now=now: adopt_new_steps(tx, self._creator, now))  # type: ignore[misc]
            found = self._probe()
            if adopted < BATCH:
                break
        return [group for group in found if group is not None and (self._groups is None or group in self._groups)]

    def _probe(self) -> list[str | None]:
        now = self._database.now()

        def work(tx: Transaction) -> list[Row]:
            tx.rows("keep_to_indexes")
            return tx.rows("groups_with_work", now=now)

        return [row["group"] for row in self._database.read(work)]
