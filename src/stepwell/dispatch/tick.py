"""One tick of one group: lock, breaker, the state phases, then pick and dispatch.

A state phase that changes rows ends the tick early, and the dispatcher ticks again at once. So that constant cascades
cannot starve dispatch, the tick after one that ended early runs all phases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypedDict, TypeVar

from stepwell.dispatch import lock as group_lock
from stepwell.dispatch.lock import LOCK_SECONDS, GroupLock, Survey
from stepwell.dispatch.log import TickLog
from stepwell.dispatch.phases import (
    DISPATCH,
    PICK,
    STATE_PHASES,
    PhaseContext,
    PhaseResult,
    StatePhase,
    dispatch,
    pick,
    process_marks,
)
from stepwell.model import codec
from stepwell.model.actors import tick_actor
from stepwell.model.errors import LockLost
from stepwell.share.strategies import NORMAL_SHARE
from stepwell.store import Database, Transaction
from stepwell.store.engine import settings, ticks

T = TypeVar("T")

# Enough to keep the workers of a busy queue occupied between two ticks, small enough that a dispatch transaction takes
# only a few milliseconds.
BATCH_LIMIT: Final = 512
TICKS_KEPT: Final = 1_000  # per group


class TickOptions(TypedDict, total=False):
    """The keyword arguments of `app.dispatcher(…)`: all have a default."""

    batch_limit: int
    batch_limits: Mapping[str, int]  # of single groups, instead of `batch_limit`
    lock_seconds: float
    ticks_kept: int


@dataclass(slots=True)
class TickReport:
    """What one tick did."""

    group: str
    tick: int | None = None
    locked_out: bool = False
    breaker_on: bool = True
    phases: list[PhaseResult] = field(default_factory=list)
    ended_early: bool = False
    opened: int = 0
    dispatched: int = 0
    milliseconds: float = 0.0
    error: BaseException | None = None

    @property
    def changed(self) -> int:
        """How many rows it changed; while there is progress, the dispatcher ticks again at once."""
        return self.opened + sum(ran.rows for ran in self.phases)

    def progress(self) -> list[dict[str, Any]]:
        """The phases that ran, as the row of the tick names them."""
        return [ran.as_progress() for ran in self.phases]


class Tick:
    """Runs ticks for one dispatcher."""

    def __init__(
        self,
        database: Database,
        owner: str,
        batch_limit: int = BATCH_LIMIT,
        *,
        batch_limits: Mapping[str, int] | None = None,
        lock_seconds: float = LOCK_SECONDS,
        ticks_kept: int = TICKS_KEPT,
    ) -> None:
        self._database = database
        self._owner = owner
        self._batch_limit = batch_limit
        self._batch_limits = batch_limits or {}
        self._lock_seconds = lock_seconds
        database.use_lease(lock_seconds)
        self._ticks_kept = ticks_kept
        self._log = TickLog()

    def run(self, group: str) -> TickReport:
        """Run one tick. An error in a phase is recorded in the report and in the tick log, not raised."""
        report = TickReport(group)
        started = self._database.clock.monotonic()
        lock = group_lock.acquire(self._database, group, self._owner, self._lock_seconds)
        if lock is None:
            report.locked_out = True
            return report
        report.tick = lock.tick
        self._log.start(group, self._database.now())
        try:
            if self._state_phases(lock, report):
                return self._finish(lock, report, started)
        except LockLost as lost:
            report.error = lost
            self._log.error(f"group {group}", lost)
            return report
        except Exception as error:
            report.error = error
            self._log.error(f"group {group}", error)
        report.milliseconds = self._since(started)
        self._database.transact(lambda tx: self._end(tx, lock, report))
        self._log.end(report.milliseconds, report.dispatched)
        return report

    def _state_phases(self, lock: GroupLock, report: TickReport) -> bool:
        """Phases 2 to 8; returns whether the tick continues after them."""
        report.breaker_on = lock.survey.breaker_on
        remaining = list(STATE_PHASES)
        while remaining:
            results = self._run_fenced(lock, partial(self._run_until_one_changes, lock.survey, remaining))
            for ran in results:
                report.phases.append(ran)
                self._log.phase(ran)
            remaining = remaining[len(results) :]
            if results[-1].rows and not lock.previous_ended_early:
                report.ended_early = True
                return False
        return True

    def _finish(self, lock: GroupLock, report: TickReport, started: float) -> TickReport:
        """Process the marks, pick, dispatch and end the tick, in one transaction to save commits.

        Nothing is logged inside it: a conflict runs it again, and only what was committed is logged.
        """

        def work(tx: Transaction, at: PhaseContext) -> tuple[TickReport, list[PhaseResult]]:
            ended = replace(report, phases=list(report.phases))
            # A phase of this tick that changed rows may have returned some steps to Pending, as unchecked.
            unchecked = lock.survey.unchecked or any(ran.rows for ran in report.phases)
            ended.opened = process_marks(tx, at, lock.survey.marks, unchecked, lock.survey.due)
            for feature in lock.survey.undecided:
                ended.opened += self._database.hooks.decide(tx, feature, at.group, at.actor, at.now)
            results = self._pick_and_dispatch(tx, at, lock.tick) if ended.breaker_on else []
            ended.breaker_on = bool(results)
            ended.dispatched = sum(ran.count for ran in results if ran.phase is DISPATCH)
            ended.phases += results
            ended.milliseconds = self._since(started)
            self._end(tx, lock, ended)
            return ended, results

        ended, results = self._run_fenced(lock, work)
        if not ended.breaker_on:
            self._log.breaker_off()
        for ran in results:
            self._log.phase(ran)
        self._log.end(ended.milliseconds, ended.dispatched)
        return ended

    def _run_until_one_changes(
        self, survey: Survey, phases: Sequence[StatePhase], tx: Transaction, at: PhaseContext
    ) -> list[PhaseResult]:
        """Run phases in order up to and including the first that changes rows: its changes commit separately."""
        results: list[PhaseResult] = []
        for phase in phases:
            started = self._database.clock.monotonic()
            rows = phase.run(tx, at) if phase.has_work(survey) else 0
            results.append(PhaseResult(phase, rows, self._since(started)))
            if rows:
                break
        return results

    def _pick_and_dispatch(self, tx: Transaction, at: PhaseContext, tick: int) -> list[PhaseResult]:
        """The last two phases; an empty list if the breaker is off."""
        started = self._database.clock.monotonic()
        if settings.breaker_for_dispatch(tx) != "true":
            return []
        limit = self._batch_limits.get(at.group, self._batch_limit)
        ids = pick(tx, at, limit, spare=int(tick % NORMAL_SHARE == 0))
        picked = PhaseResult(PICK, len(ids), self._since(started))
        started = self._database.clock.monotonic()
        return [picked, PhaseResult(DISPATCH, dispatch(tx, at, ids, tick), self._since(started))]

    def _since(self, started: float) -> float:
        """In milliseconds."""
        return 1000 * (self._database.clock.monotonic() - started)

    def _run_fenced(self, lock: GroupLock, work: Callable[[Transaction, PhaseContext], T]) -> T:
        """Run `work` in one transaction that starts with the fence."""

        def fenced(tx: Transaction) -> T:
            lock.fence(tx)
            return work(tx, PhaseContext(lock.group, tick_actor(lock.tick), self._database.now()))

        return self._database.transact(fenced)

    def _end(self, tx: Transaction, lock: GroupLock, report: TickReport) -> None:
        now = self._database.now()
        if report.changed or report.error is not None:
            ticks.end_tick(
                tx,
                tick=lock.tick,
                now=now,
                progress=codec.encode(report.progress()),
                dispatched=report.dispatched,
                duration_ms=report.milliseconds,
                error=None if report.error is None else codec.clean_text(repr(report.error), 2_000),
            )
        else:
            ticks.delete_tick(tx, tick=lock.tick)
        # The token counts all ticks of this group, including deleted ones; tick ids are shared by all groups.
        if lock.token % 100 == 0:
            ticks.prune_ticks(tx, group=lock.group, keep=self._ticks_kept)
        ticks.release_lock(tx, group=lock.group, token=lock.token, now=now, ended_early=report.ended_early)
