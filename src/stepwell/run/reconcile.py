"""Reconciling leases: those that the database has on record for a worker with the runs that it has in hand.

They differ after an outage (a claim whose answer was lost), after an absence (the machine slept, and others have the
steps now), and when a step was cancelled.
"""

from __future__ import annotations

import logging
import time
from typing import Final, TypeAlias

from stepwell.model.claimed import Claim
from stepwell.model.states import State
from stepwell.run.ending import Ending
from stepwell.run.executors import Executor
from stepwell.run.finish import Finisher
from stepwell.run.heartbeat import Heartbeat
from stepwell.run.in_flight import InFlight
from stepwell.run.time_limits import TimeLimits
from stepwell.run.worker_report import WorkerReport
from stepwell.run.worker_row import WorkerRow
from stepwell.store import Database, Transaction
from stepwell.store.engine import workers

_LOGGER: Final = logging.getLogger("stepwell.worker")

# How soon a run learns that its step was cancelled.
RECONCILE_SECONDS: Final = 1.0

Leases: TypeAlias = dict[tuple[int, int], State]


class Reconciler:
    """Keeps one worker and its row honest about each other."""

    def __init__(
        self,
        database: Database,
        row: WorkerRow,
        heartbeat: Heartbeat,
        finisher: Finisher,
        executor: Executor,
        in_flight: InFlight,
        limits: TimeLimits,
        report: WorkerReport,
    ) -> None:
        self._database = database
        self._row = row
        self._heartbeat = heartbeat
        self._finisher = finisher
        self._executor = executor
        self._in_flight = in_flight
        self._limits = limits
        self._report = report
        self.next_at = 0.0
        self._may_be_stale = False  # whether the row may: then a heartbeat comes first
        self._last_round = time.monotonic()

    def note_round(self) -> None:
        """The worker is there. Real time: how long it was away is told by no injected clock."""
        self._last_round = time.monotonic()

    def check_for_pause(self, now: float) -> None:
        """If there was one: this process was stopped, or the machine was."""
        if now - self._last_round > self._row.alive_seconds / 2:
            self.assume_stale()

    def assume_stale(self) -> None:
        """Whatever is on record may have changed: look at once."""
        self._may_be_stale, self.next_at = True, 0.0

    def run_if_due(self, now: float) -> None:
        if now >= self.next_at:
            self._run(now)
            self.next_at = now + min(RECONCILE_SECONDS, self._row.alive_seconds / 4)

    def _run(self, now: float) -> None:
        self._heartbeat.ensure_running(self._row)
        if self._may_be_stale:
            self._row.heartbeat()
            self._may_be_stale = False
        leases, registered = self._database.read(self._on_record)
        self._end_lost_and_cancelled(leases)
        self._drop_waiting(leases, now)
        self._return_unknown(leases)
        if not registered:
            self._register_again()

    def _on_record(self, tx: Transaction) -> tuple[Leases, bool]:
        held = workers.leases_of_worker(tx, worker=self._row.id)
        registered = workers.is_registered(tx, worker=self._row.id) is not None
        return {(lease.id, lease.lease_token): lease.state for lease in held}, registered

    def _end_lost_and_cancelled(self, leases: Leases) -> None:
        for key, run in [*self._in_flight.runs.items()]:
            if key not in leases:
                _LOGGER.warning("step %d: its lease was lost, ending its run", run.claim.step_id)
                self._executor.abandon(run.claim)
                del self._in_flight.runs[key]
                self._report.lost += 1
            elif leases[key] is not State.RUNNING and not run.cancelled:
                self._limits.cancel(run)

    def _drop_waiting(self, leases: Leases, now: float) -> None:
        for claim in [claim for claim in self._in_flight.waiting if leases.get(claim.key) is not State.RUNNING]:
            self._in_flight.waiting.remove(claim)
            self._in_flight.add_ending(claim, Ending(verb="lost"), now)

    def _return_unknown(self, leases: Leases) -> None:
        """Claims that were committed and whose answers were lost: this worker holds them and knows nothing of them."""
        for step_id, token in leases.keys() - self._in_flight.keys():
            claim = Claim(step_id, token, self._row.id)
            if leases[step_id, token] is State.RUNNING:
                self._finisher.hand_back(claim)
            else:
                self._finisher.release_lease(claim)

    def _register_again(self) -> None:
        """It was taken for dead, and what it ran was given to others."""
        _LOGGER.warning("this worker was taken for dead; registering under a new name")
        for run in self._in_flight.runs.values():
            self._executor.abandon(run.claim)
        self._report.lost += self._in_flight.forget_unfinished()
        self._heartbeat.stop()
        self._row.register()
        self._heartbeat.start(self._row)
