"""A worker: claims steps, runs them in its executor, and writes how they ended.

One loop in one thread. A round collects the runs that have ended, writes them in one transaction together with the next
claim, enforces time limits and cancellations, and returns how long to sleep. No database error ends the worker: endings
are buffered until they can be written, and after an outage the stored leases are reconciled with the runs in flight.

Apart from the time limits of steps it uses real time, because it waits for other processes and for the database.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from typing import Any, Final

from stepwell.define.registry import Registry
from stepwell.model.errors import StepwellError
from stepwell.model.leases import LEASE_SECONDS
from stepwell.run.begins import Begins
from stepwell.run.claim import Claimer
from stepwell.run.claim_ahead import ClaimAhead
from stepwell.run.exchange import Exchange
from stepwell.run.executors import PREFETCH_SECONDS, Executor
from stepwell.run.finish import Finisher
from stepwell.run.grace import GRACE_SECONDS, GracePeriod
from stepwell.run.handover import Handover
from stepwell.run.heartbeat import Heartbeat
from stepwell.run.in_flight import InFlight
from stepwell.run.poll_times import POLL_SECONDS, PollTimes
from stepwell.run.reconcile import Reconciler
from stepwell.run.time_limits import TimeLimits
from stepwell.run.worker_report import WorkerReport
from stepwell.run.worker_row import WorkerRow
from stepwell.service.loop import log_failure
from stepwell.service.part import Part
from stepwell.service.retry_delay import RetryDelay
from stepwell.share.strategies import Strategy
from stepwell.store import Database, Wake
from stepwell.store.wake import Listener

_LOGGER: Final = logging.getLogger("stepwell.worker")

# After the grace period, while another program blocks the database: the last endings are worth this wait. The reaper
# returns the steps of those that could not be written.
LAST_WRITE_SECONDS: Final = 1.0


class Worker(Part):
    """Runs until it is stopped and either nothing is left in flight or its grace period is over."""

    name = "worker"

    def __init__(
        self,
        database: Database,
        registry: Registry,
        finisher: Finisher,
        executor: Executor,
        heartbeat: Heartbeat,
        *,
        queues: Sequence[str] = (),
        groups: Collection[str] = (),
        strategy: Strategy | None = None,
        alive_seconds: float = LEASE_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._database = database
        self._executor = executor
        self._heartbeat = heartbeat
        self.row = WorkerRow(database, queues, registry.actions(), executor.slots, alive_seconds, groups)
        self._numbers = WorkerReport()
        claimer = Claimer(database, self.row, strategy, registry.weights())
        self._in_flight = in_flight = InFlight()
        self._polls, claim_ahead = PollTimes(), ClaimAhead()
        self._limits = TimeLimits(database.clock, registry, executor, in_flight)
        self._handover = Handover(executor, in_flight, self._limits, claim_ahead)
        self._exchange = Exchange(finisher, claimer, executor, in_flight, self._polls, claim_ahead, self._numbers)
        self._begins = Begins(database, executor)
        self._reconciler = Reconciler(
            database, self.row, heartbeat, finisher, executor, in_flight, self._limits, self._numbers
        )
        self._retry_delay, self._retry_at = RetryDelay(), 0.0  # no database access before that time
        self._grace = GracePeriod(grace_seconds)

    # start and stop -----------------------------------------------------------------------------------------

    def listen(self) -> Listener:
        listener = self._database.listen()
        self._polls.listener_is_precise = listener.is_precise
        return listener

    def files(self) -> Sequence[Any]:
        return self._executor.files()

    def open(self) -> None:
        self._heartbeat.start(self.row)
        self._reconciler.note_round()

    def stop(self, *, at_once: bool = False) -> None:
        """Take no new work; what still runs after the grace period (or now) returns to Pending."""
        self._grace.start(at_once=at_once)
        self._database.limit_waiting(self._grace.ends_at)

    def is_done(self) -> bool:
        return self._in_flight.is_empty() or self._grace.is_over()

    def close(self) -> None:
        self._database.limit_waiting(max(self._grace.ends_at, time.monotonic() + LAST_WRITE_SECONDS))
        try:
            self._handover.end_all(time.monotonic())
            self._exchange.write_last()
        finally:
            self._executor.close()
            self._heartbeat.stop()
            self._unregister()

    def _unregister(self) -> None:
        try:
            self.row.unregister()
        except StepwellError as error:
            _LOGGER.warning("cannot unregister (%s); the reaper will remove the row of this worker", error)

    def report(self) -> str:
        return str(self._numbers)

    # a round ------------------------------------------------------------------------------------------------

    def round(self, wakes: Collection[Wake]) -> float:
        now = time.monotonic()
        self._polls.note_wakes(wakes, now)
        if self._handover.collect(now):
            self._polls.add(now)
        self._handover.withdraw(stopping=self._grace.has_started)
        self._handover.start_waiting(now, stopping=self._grace.has_started)
        if self._limits.abandon_overdue(now):
            self._polls.add(now)
        if now >= self._retry_at:
            self._use_database(now)
        return self._pause()

    def _use_database(self, now: float) -> None:
        self._reconciler.check_for_pause()
        try:
            self._reconciler.run_if_due(now)
            if claims := self._exchange.run(now, stopping=self._grace.has_started):
                claimed_at = time.monotonic()
                self._in_flight.add_claims(claims, claimed_at)
                self._handover.start_waiting(claimed_at, stopping=self._grace.has_started)
            self._begins.record(now)
            self._retry_delay.reset()
        except Exception as error:
            self._back_off(error)
        self._reconciler.note_round()

    def _back_off(self, error: Exception) -> None:
        """Stop using the database for a while; runs continue, and time limits and signals still apply."""
        seconds = self._retry_delay.next()
        log_failure(_LOGGER, self.name, error, seconds)
        self._retry_at = time.monotonic() + seconds
        self._reconciler.assume_stale()
        self._polls.postpone(self._retry_at)

    def _pause(self) -> float:
        now = time.monotonic()
        times = [now + POLL_SECONDS, now + self._limits.seconds_left(), self._grace.ends_at]
        if self._in_flight.waiting:
            times.append(self._handover.waits_until())
        if self._executor.prefetched():
            times.append(now + PREFETCH_SECONDS)
        if now < self._retry_at:
            times.append(self._retry_at)
        else:
            times += [self._reconciler.next_at, self._begins.next_at]
            if self._in_flight.endings:
                times.append(self._exchange.writes_at())
            if not self._grace.has_started and self._executor.free():
                times.append(self._polls.next())
        return max(0.0, min(times) - now)
