"""A worker: claims steps, has them run by its executor, and writes down how they ended.

One loop in one thread. A round collects what has ended, writes it in one transaction together with the next claim,
looks after time limits and cancellations, and sleeps until there is news. No trouble with the database ends it: endings
are kept until they can be written, and after an outage the leases that the database has on record are called over.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from stepwell.define.registry import Registry
from stepwell.model.claimed import Claim
from stepwell.model.error_text import describe
from stepwell.model.errors import DatabaseUnavailable, StepwellError
from stepwell.model.reasons import ERROR
from stepwell.model.states import State
from stepwell.run.claim import Claimer
from stepwell.run.ending import Ended, Ending
from stepwell.run.endings import not_completed
from stepwell.run.executors import PREFETCH_SECONDS, Executor
from stepwell.run.finish import Finisher
from stepwell.run.heartbeat import Heartbeat
from stepwell.run.worker_row import ALIVE_SECONDS, WorkerRow
from stepwell.service.wakeup import WakePipe
from stepwell.share.strategies import Strategy
from stepwell.store import Database, Transaction, Wake
from stepwell.store.engine import workers

_LOGGER: Final = logging.getLogger("stepwell.worker")

# One claim takes no more: beyond it, nothing is won (measured: 128 rows a tenth slower, 512 as fast).
BATCH: Final = 256
POLL_SECONDS: Final = 1.0  # the floor under every wake-up
# Wake may be older than the commit that it is about (see `NOTIFY_INTERVAL_SECONDS`): look again soon after it.
ECHO_SECONDS: Final = (0.006, 0.03)
# After this long without news, any is taken for news of work.
SILENCE_SECONDS: Final = 0.02
# Short steps are claimed ahead of free slots: as many as are done in the first time. What has waited here for the
# second (those before it took longer than expected) is handed back, for another worker may have a free slot.
AHEAD_SECONDS: Final = 0.02
HAND_BACK_SECONDS: Final = 0.5
# Endings are gathered for so long while there is more to run.
GATHER_SECONDS: Final = 0.005
RECONCILE_SECONDS: Final = 1.0
GRACE_SECONDS: Final = 30.0
OUTAGE_SECONDS: Final = (0.2, 10.0)


@dataclass(slots=True)
class _Run:
    """A step that runs here."""

    claim: Claim
    started: float
    cut_at: float | None  # timeout + cooldown
    cancelled: bool = False


@dataclass(slots=True)
class WorkerReport:
    """What a worker has done so far."""

    claimed: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    lost: int = 0


class Worker:
    """Runs until told to stop."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        finisher: Finisher,
        executor: Executor,
        heart: Heartbeat,
        *,
        queues: Sequence[str] = (),
        strategy: Strategy | None = None,
        alive_seconds: float = ALIVE_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._database = database
        self._registry = registry
        self._finisher = finisher
        self._executor = executor
        self._heartbeat = heart
        self._grace_seconds = grace_seconds
        self.row = WorkerRow(database, queues, registry.actions(), executor.slots, alive_seconds)
        self._claimer = Claimer(database, self.row, strategy, {job.action: job.policy.weight for job in registry})
        self._runs: dict[tuple[int, int], _Run] = {}
        self._waiting: deque[Claim] = deque()  # claimed ahead
        self._waiting_since = 0.0
        self._seconds_per_step: float | None = None
        self._oldest_ending = 0.0
        self._endings: list[Ended] = []
        self._wake_pipe = WakePipe()
        self._stops_at: float | None = None
        self._looks: list[float] = [0.0]  # moments at which to look for work, whatever is heard
        self._is_told = False  # that there is work: then it need not look first
        self._last_news = 0.0
        self._next_reconcile = 0.0
        self._is_unsure = False  # whether its row may have become stale: then it says first that it is alive
        self._last_round = time.monotonic()
        self._outage = OUTAGE_SECONDS[0]
        self._quiet_until = 0.0  # no word to the database before
        self.report = WorkerReport()

    def stop(self, *, at_once: bool = False) -> None:
        """Take no new work; what still runs after the grace period (or now) is handed back. Safe in signal handlers."""
        deadline = time.monotonic() + (0.0 if at_once else self._grace_seconds)
        self._stops_at = deadline if self._stops_at is None else min(self._stops_at, deadline)
        self._wake_pipe.wake()

    def run(self) -> None:
        """Work until told to stop and nothing is left."""
        listener = self._database.listen()
        self._heartbeat.start(self.row)
        self._last_round = time.monotonic()
        try:
            while self._stops_at is None or self._runs or self._waiting or self._endings:
                news = listener.wait([self._wake_pipe, *self._executor.files()], self._pause())
                self._wake_pipe.clear()
                self._is_told = Wake.WORK in news and (listener.is_precise or self._was_silent())
                if news:
                    self._last_news = time.monotonic()
                self._round(news)
                if self._stops_at is not None and time.monotonic() >= self._stops_at:
                    self._hand_all_back()
                    break
        finally:
            self._executor.close()
            listener.close()
            self._heartbeat.stop()
            self._sign_off()

    def _was_silent(self) -> bool:
        return time.monotonic() - self._last_news > SILENCE_SECONDS

    def _pause(self) -> float:
        now = time.monotonic()
        times = [run.cut_at for run in self._runs.values() if run.cut_at is not None]
        if self._stops_at is not None:
            times.append(self._stops_at)
        if self._waiting:
            times.append(self._waiting_since + HAND_BACK_SECONDS)
        if self._executor.prefetched():
            times.append(now + PREFETCH_SECONDS)
        if now < self._quiet_until:
            times.append(self._quiet_until)
        else:
            times.append(self._next_reconcile)
            if self._endings:
                times.append(self._oldest_ending + GATHER_SECONDS)
            if self._executor.free() and self._stops_at is None:
                times += self._looks
        return max(0.0, min([POLL_SECONDS, *(moment - now for moment in times)]))

    def _round(self, news: object) -> None:
        now = time.monotonic()
        ended = self._executor.collect()
        for claim, ending in ended:
            if self._runs.pop(claim.key, None) is not None:
                self._note_ending(claim, ending, now)
                self._learn(ending.duration)
        self._take_back(now)
        self._start_waiting(now)
        if news:
            self._looks = [now, *(now + seconds for seconds in ECHO_SECONDS)]
        if ended:
            self._looks.append(now)
        self._cut_what_is_over_time(now)
        if now < self._quiet_until:
            return
        if now - self._last_round > self.row.alive_seconds / 2:  # it was stopped, or the machine was
            self._is_unsure, self._next_reconcile = True, 0.0
        try:
            if now >= self._next_reconcile:
                self._reconcile_leases(now)
                self._next_reconcile = now + min(RECONCILE_SECONDS, self.row.alive_seconds / 4)
            self._exchange(now)
            self._outage = OUTAGE_SECONDS[0]
        except Exception as error:
            self._wait_out(error)
        self._last_round = time.monotonic()

    # claims and endings -----------------------------------------------------------------------------------

    def _exchange(self, now: float) -> None:
        """Write what has ended and claim what comes next, in one transaction."""
        if self._waiting and now < self._oldest_ending + GATHER_SECONDS and len(self._endings) < BATCH:
            return  # the slots are busy, and there is more to come
        due = self._stops_at is None and bool(self._looks) and min(self._looks) <= now
        ahead = self._ahead() - self._executor.prefetched() - len(self._waiting)
        want = min(self._executor.free() + ahead, BATCH) if due else 0
        if due:
            self._looks = [moment for moment in self._looks if moment > now]
            if want > 0 and not self._endings and not self._is_told and not self._claimer.is_there_work():
                want = 0
        want = max(want, 0)
        if self._endings or want:
            endings = self._endings
            try:
                states, claims = self._finisher.write_all_and(endings, lambda tx: self._claim(tx, want))
            except DatabaseUnavailable:
                raise
            except Exception:
                if not endings:
                    raise
                _LOGGER.exception("%d endings cannot be written together: they are written one by one", len(endings))
                self._write_one_by_one()
                return
            self._endings = []
            self._settle(endings, states)
            if claims:
                self.report.claimed += len(claims)
                self._waiting_since = time.monotonic()
                self._waiting.extend(claims)
                self._start_waiting(self._waiting_since)
            if want and len(claims) == want:
                self._looks.append(now)
        if not self._looks:
            self._looks = [now + POLL_SECONDS]

    def _write_one_by_one(self) -> None:
        """One of them is such that the database refuses it: it fails, and the others are none the worse."""
        while self._endings:
            claim, ending = self._endings[0]
            try:
                state = self._finisher.write(claim, ending)
            except DatabaseUnavailable:
                raise
            except Exception as error:
                ending = Ending(verb="fail", reason=ERROR, error=f"its end cannot be written: {describe(error)}")
                state = self._finisher.write(claim, ending)
            del self._endings[0]
            self._settle([(claim, ending)], [state])

    def _claim(self, tx: Transaction, want: int) -> list[Claim]:
        if not want:
            return []
        here = [*(run.claim for run in self._runs.values()), *self._waiting]
        return self._claimer.claim(tx, want, Counter(claim.step.action for claim in here))

    def _ahead(self) -> int:
        """How many steps beyond its slots the worker can run in no time."""
        if self._seconds_per_step is None or self._executor.is_held_up():
            return 0
        return min(int(self._executor.slots * AHEAD_SECONDS / max(self._seconds_per_step, 1e-4)), BATCH)

    def _learn(self, seconds: float) -> None:
        """The mean of the latest runs; a long one counts at once."""
        known = self._seconds_per_step
        self._seconds_per_step = seconds if known is None or seconds > 10 * known else 0.9 * known + 0.1 * seconds

    def _start_waiting(self, now: float) -> None:
        # First: this worker may have been stopped for so long that the steps are not its own any more.
        if self._waiting and (now >= self._waiting_since + HAND_BACK_SECONDS or self._stops_at is not None):
            self._seconds_per_step = HAND_BACK_SECONDS  # it was wrong: nothing ahead until it is known better
            while self._waiting:
                self._note_ending(self._waiting.popleft(), Ending(verb="hand_back"), now)
        for claim in self._executor.take(self._waiting, self._seconds_per_step):
            timeout, cooldown = claim.step.timeout, claim.step.cooldown
            self._runs[claim.key] = _Run(claim, now, now + timeout + cooldown if timeout else None)

    def _take_back(self, now: float) -> None:
        """What would have to wait too long behind another step begins in the next free slot, whichever it is."""
        for claim in reversed(self._executor.give_back(everything=self._stops_at is not None)):
            if self._runs.pop(claim.key, None) is not None:
                self._waiting.appendleft(claim)

    def _note_ending(self, claim: Claim, ending: Ending, now: float) -> None:
        if not self._endings:
            self._oldest_ending = now
        self._endings.append((claim, ending))

    def _settle(self, endings: Sequence[Ended], states: Sequence[State | None]) -> None:
        for (claim, ending), state in zip(endings, states, strict=True):
            if state is None:
                self.report.lost += 1
                self._finisher.release_lease(claim)
            else:
                self.report.ended[state.value] = self.report.ended.get(state.value, 0) + 1
            if state is State.FAILED and ending.notify:
                _LOGGER.error("step %d (%s) failed: %s", claim.step_id, claim.step.action, ending.error)

    # time limits and cancellations --------------------------------------------------------------------------

    def _cut_what_is_over_time(self, now: float) -> None:
        for run in list(self._runs.values()):
            if run.cut_at is None or now < run.cut_at:
                continue
            self._executor.cut(run.claim)
            self._runs.pop(run.claim.key)
            step = run.claim.step
            if run.cancelled:
                self._note_ending(run.claim, Ending(verb="lost"), now)  # only to let go of the lease
                continue
            message = f"it was cut off, {step.cooldown:g} s after its timeout of {step.timeout:g} s"
            _LOGGER.warning("step %d (%s): %s", run.claim.step_id, step.action, message)
            limit = self._registry[step.action].policy.max_not_completed
            self._note_ending(run.claim, not_completed(step.cooldown, limit, message), now)
            self._looks.append(now)

    def _reconcile_leases(self, now: float) -> None:
        """Compare the leases on record with the runs at hand."""
        self._heartbeat.ensure_running(self.row)
        if self._is_unsure:
            self.row.heartbeat()
            self._is_unsure = False

        def look(tx: Transaction) -> tuple[list[workers.HeldLease], bool]:
            worker = self.row.id
            return workers.leases_of_worker(tx, worker=worker), workers.is_registered(tx, worker=worker) is not None

        held, registered = self._database.read(look)
        leases = {(lease.id, lease.lease_token): lease.state for lease in held}
        for key, run in list(self._runs.items()):
            if key not in leases:
                _LOGGER.warning("step %d was taken away from this worker: its run is ended", run.claim.step_id)
                self._executor.cut(run.claim)
                del self._runs[key]
                self.report.lost += 1
            elif leases[key] is not State.RUNNING and not run.cancelled:
                run.cancelled = True
                run.cut_at = now + run.claim.step.cooldown if self._executor.can_end_runs else None
                self._executor.request_cancel(run.claim)
        for claim in [claim for claim in self._waiting if leases.get(claim.key) is not State.RUNNING]:
            self._waiting.remove(claim)
            self._note_ending(claim, Ending(verb="lost"), now)
        known = {*self._runs, *(claim.key for claim in self._waiting), *(claim.key for claim, _ in self._endings)}
        for step_id, token in leases.keys() - known:
            # Its claim was committed and the answer was lost: this worker holds it and knows nothing of it.
            claim = Claim(step_id, token, self.row.id)
            if leases[step_id, token] is State.RUNNING:
                self._finisher.hand_back(claim)
            else:
                self._finisher.release_lease(claim)
        if not registered:
            self._register_again()

    # trouble --------------------------------------------------------------------------------------------------

    def _register_again(self) -> None:
        """It was taken for dead, and what it ran was given to others."""
        _LOGGER.warning("this worker was taken for dead; it goes on under a new name")
        for run in self._runs.values():
            self._executor.cut(run.claim)
        self.report.lost += len(self._runs) + len(self._waiting)
        self._runs.clear()
        self._waiting.clear()
        self._heartbeat.stop()
        self.row.register()
        self._heartbeat.start(self.row)

    def _wait_out(self, error: Exception) -> None:
        """Leave the database alone for a while; what runs goes on, and so do time limits and signals."""
        known = isinstance(error, StepwellError)
        _LOGGER.warning(
            "the worker met trouble (%s); it goes on in about %.1f s", error, self._outage, exc_info=not known
        )
        self._quiet_until = time.monotonic() + self._outage * random.uniform(0.5, 1.0)
        self._outage = min(2 * self._outage, OUTAGE_SECONDS[1])
        self._is_unsure, self._next_reconcile = True, 0.0
        self._looks = [self._quiet_until]

    # the end --------------------------------------------------------------------------------------------------

    def _hand_all_back(self) -> None:
        """The grace period is over: unfinished and unspent."""
        for run in self._runs.values():
            self._executor.cut(run.claim)
            self._endings.append((run.claim, Ending(verb="lost" if run.cancelled else "hand_back")))
        self._runs.clear()
        self._endings += [(claim, Ending(verb="hand_back")) for claim in self._waiting]
        self._waiting.clear()
        endings, self._endings = self._endings, []
        try:
            self._settle(endings, self._finisher.write_all(endings))
        except StepwellError as error:
            _LOGGER.warning("could not hand %d steps back (%s); the reaper will bring them back", len(endings), error)

    def _sign_off(self) -> None:
        try:
            self.row.sign_off()
        except StepwellError as error:
            _LOGGER.warning("could not sign off (%s); the row is removed when its time is over", error)
