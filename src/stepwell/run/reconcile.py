"""Reconciling leases: those stored in the database for a worker with the claims it has in flight.

They differ after an outage (a claim whose response was lost), after a pause (the machine was suspended, and other
workers have the steps now), and when a step was cancelled.
"""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

from stepwell.model.claimed import Claim
from stepwell.model.clock import since_boot
from stepwell.model.states import State
from stepwell.run.ending import Ending
from stepwell.run.executors import Executor
from stepwell.run.finish import Finisher
from stepwell.run.heartbeat import HEARTBEATS_PER_LEASE, Heartbeat
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
    """Keeps one worker consistent with its row and its leases."""

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
        self._may_be_stale = False  # the row: then a heartbeat is written first
        self._last_round = since_boot()

    def note_round(self) -> None:
        """A round was run. Real time, because an injected clock does not show how long the process was suspended."""
        self._last_round = since_boot()

    def check_for_pause(self) -> None:
        """Detect that this process or the machine was suspended: then the stored leases may have changed."""
        if since_boot() - self._last_round > self._row.alive_seconds / 2:
            self.assume_stale()

    def assume_stale(self) -> None:
        """The stored leases may have changed: reconcile in the next round."""
        self._may_be_stale, self.next_at = True, 0.0

    def run_if_due(self, now: float) -> None:
        if now >= self.next_at:
            self._run(now)
            self.next_at = now + min(RECONCILE_SECONDS, self._row.alive_seconds / 4)

    def _run(self, now: float) -> None:
        self._heartbeat.ensure_running(self._row)
        # Not only after a pause: whatever else writes the heartbeats may have stopped to.
        if self._may_be_stale or self._row.seconds_left() < self._row.alive_seconds / HEARTBEATS_PER_LEASE:
            self._row.heartbeat()
            self._may_be_stale = False
        leases, registered = self._database.read(self._stored)
        self._end_lost_and_cancelled(leases)
        self._drop_waiting(leases, now)
        self._return_unknown(leases)
        if not registered:
            self._register_again()

    def _stored(self, tx: Transaction) -> tuple[Leases, bool]:
        leases = workers.leases_of_worker(tx, worker=self._row.id)
        registered = workers.is_registered(tx, worker=self._row.id) is not None
        return {(lease.id, lease.lease_token): lease.state for lease in leases}, registered

    def _end_lost_and_cancelled(self, leases: Leases) -> None:
        for key, run in [*self._in_flight.runs.items()]:
            if key not in leases:
                _LOGGER.warning("step %d: lease lost; abandoning the run", run.claim.step_id)
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
        """Claims that were committed but whose response was lost: this worker holds leases that it does not know of."""
        for step_id, token in leases.keys() - self._in_flight.keys():
            claim = Claim(step_id, token, self._row.id)
            if leases[step_id, token] is State.RUNNING:
                self._finisher.hand_back(claim)
            else:
                self._finisher.release_lease(claim)

    def _register_again(self) -> None:
        """The worker was declared dead, and its steps were returned to Pending."""
        _LOGGER.warning("this worker was declared dead; registering under a new id")
        for run in self._in_flight.runs.values():
            self._executor.abandon(run.claim)
        self._report.lost += self._in_flight.forget_unfinished()
        self._heartbeat.stop()
        self._row.register()
        self._heartbeat.start(self._row)
