"""The inline runner: claims steps and runs them in the calling thread, one after another.

To the rest of the system it is a worker like any other (a row, lanes, slots, leases). Tests, the demo and small
programs use it.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stepwell.define.registry import Registry
from stepwell.enqueue.declared_actions import record_actions
from stepwell.model.claimed import Claim
from stepwell.model.error_text import describe
from stepwell.model.errors import DatabaseUnavailable, StepwellError
from stepwell.model.reasons import ERROR
from stepwell.model.states import State
from stepwell.run.channel import DirectChannel, run_here
from stepwell.run.claim import Claimer
from stepwell.run.ending import Ending
from stepwell.run.finish import Finisher
from stepwell.run.heartbeat import HEARTBEATS_PER_LEASE, ThreadHeartbeat
from stepwell.run.log_fields import log_ending
from stepwell.run.running import RunningStep
from stepwell.run.time_limits import abandoned
from stepwell.run.worker_row import WorkerRow
from stepwell.store import Database

if TYPE_CHECKING:
    from stepwell.dispatch.dispatcher import Dispatcher


class InlineRunner:
    """Runs steps in the calling thread."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        finisher: Finisher,
        queues: Sequence[str] = (),
        slots: int = 8,
        watch: Callable[[RunningStep, State | None], None] | None = None,
        *,
        waits_for_ticks: bool = True,
    ) -> None:
        """`waits_for_ticks`: claim only what a tick has dispatched, and not what is merely open."""
        self._database = database
        self._registry = registry
        self._finisher = finisher
        self._watch = watch
        record_actions(database, registry)
        self.worker = WorkerRow(database, queues, registry.actions(), slots)
        self._claimer = Claimer(database, self.worker, waits_for_ticks=waits_for_ticks)
        self._last_seen = database.now()

    def round(self) -> int:
        """Claim as many steps as there are slots and run them; returns how many were run."""
        with self.beating():
            return self._round()

    def run_until_idle(self, dispatcher: Dispatcher, max_rounds: int) -> int:
        """Dispatch and run until nothing more can be done now; returns how many runs there were.

        Decisions come first, so that a cascade ends what it has to before more is claimed.
        """
        runs = 0
        with self.beating():
            for _ in range(max_rounds):
                reports = dispatcher.round(open_too=False)
                for report in reports:
                    if report.error is not None:
                        raise report.error
                ran = self._round()
                runs += ran
                if not ran and not any(report.changed for report in reports):
                    return runs
        raise StepwellError(f"the steps did not come to rest in {max_rounds} rounds")

    def _round(self) -> int:
        self.heartbeat()
        claims = deque(self.claim(self.worker.slots))
        ran, lapses = 0, self.worker.lapses
        try:
            # After a suspension, others may have the rest.
            while claims and self.worker.seconds_left() > 0 and self.worker.lapses == lapses:
                self._run(claims.popleft())
                ran += 1
        finally:
            for claim in claims:  # interrupted or suspended: these have not started
                self._finisher.hand_back(claim)
        return ran

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Write heartbeats from a thread meanwhile: a run may take longer than the lease of a silent worker."""
        heartbeat = ThreadHeartbeat()
        heartbeat.start(self.worker)
        try:
            yield
        finally:
            heartbeat.stop()

    def heartbeat(self) -> None:
        """Write the heartbeat if it is due."""
        elapsed = (self._database.now() - self._last_seen).total_seconds()
        if elapsed >= self.worker.alive_seconds / HEARTBEATS_PER_LEASE:
            self.worker.heartbeat()
            self._last_seen = self._database.now()

    def claim(self, limit: int) -> list[Claim]:
        """Claim steps: to Running, under a new token."""
        if self.worker.seconds_left() <= 0:
            self.worker.heartbeat()
        try:
            return self._database.transact(lambda tx: self._claimer.claim(tx, limit))
        except DatabaseUnavailable:
            raise
        except Exception:
            return self._claimer.claim_one_by_one(limit)

    def _run(self, claim: Claim) -> None:
        step = RunningStep(claim.step, _InlineChannel(self._database, self._finisher, claim), self._database.clock)
        try:
            ending = run_here(self._registry[step.action], step, claim.step.arguments, interruptible=True)
        except (KeyboardInterrupt, CancelledError):  # meant for the caller, not for the job
            self._finisher.hand_back(claim)
            raise
        if step.is_overdue and ending.verb != "lost":  # it cannot be cut here, but its result is ignored like elsewhere
            ending = abandoned(claim, self._registry)
        try:
            state = self._finisher.write(claim, ending)
        except DatabaseUnavailable:
            raise
        except Exception as error:  # the database rejects the ending
            unwritten = f"the end of the run cannot be written: {describe(error)}"
            ending = Ending(verb="fail", reason=ERROR, error=unwritten)
            state = self._finisher.write(claim, ending)
        log_ending((claim, ending), state, failure_level=logging.INFO)  # the caller looks at the step itself
        if state is None:
            self._finisher.release_lease(claim)
        if self._watch is not None:
            self._watch(step, state)

    def close(self) -> None:
        self.worker.unregister()


class _InlineChannel(DirectChannel):
    """Nothing supervises an inline run, so it checks its own lease."""

    def cancel_requested(self) -> bool:
        return not self._finisher.holds_lease(self.claim)
