"""The reaper: brings back what died, and says when a group makes no progress.

A step is dead when it is Running under a lease that is not alive: its worker's row is gone or stale, or the lease is
past its deadline. Dead is no state: it is seen, and ended, here. Any number of reapers may run at once.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypedDict

from stepwell.events import Events, FailureNotification, GroupStalled, StepRescued
from stepwell.model.reasons import POISON
from stepwell.model.states import State
from stepwell.run.finish import RESCUES
from stepwell.share.limits import look_at_keys_left_behind
from stepwell.store import Database, Transaction
from stepwell.store.engine import reaping, runs, ticks
from stepwell.store.engine.reaping import DeadLease

_LOGGER: Final = logging.getLogger("stepwell.reaper")

ACTOR: Final = "reaper"
ROUND_SECONDS: Final = 5.0
# A Dispatched step that no worker has taken for so long goes back to its turn: others may be more urgent by now.
UNTAKEN_SECONDS: Final = 300.0
# The rows of dead workers are kept so long, for people to see.
DEAD_WORKER_RETENTION_SECONDS: Final = 300.0
STALLED_SECONDS: Final = 60.0
# A worker that dies takes all its steps with it, and nobody knows which of them did it. From the second time on they
# come back one by one, within so many seconds for each time before: the innocent are done when the other one runs.
SPREAD_SECONDS: Final = 10.0


@dataclass(slots=True)
class Reaped:
    """What one round did."""

    rescued: list[int] = field(default_factory=list)
    poisoned: list[int] = field(default_factory=list)
    release_lease: list[int] = field(default_factory=list)
    recovered: list[int] = field(default_factory=list)
    workers_forgotten: int = 0
    locks_released: int = 0
    stalled: list[str] = field(default_factory=list)


class ReaperOptions(TypedDict, total=False):
    """The keyword arguments of `app.reaper(…)`: all have a default."""

    round_seconds: float
    untaken_seconds: float
    stalled_seconds: float
    dead_worker_retention_seconds: float
    rescues: int


class Reaper:
    """Looks after what others left behind."""

    def __init__(
        self,
        database: Database,
        events: Events,
        *,
        round_seconds: float = ROUND_SECONDS,
        untaken_seconds: float = UNTAKEN_SECONDS,
        stalled_seconds: float = STALLED_SECONDS,
        dead_worker_retention_seconds: float = DEAD_WORKER_RETENTION_SECONDS,
        rescues: int = RESCUES,
    ) -> None:
        self._database = database
        self._events = events
        self.round_seconds = round_seconds
        self._untaken_seconds = untaken_seconds
        self._stalled_seconds = stalled_seconds
        self._retention_seconds = dead_worker_retention_seconds
        self._rescues = rescues
        self._waiting: dict[str, tuple[int, datetime]] = {}  # per group: the oldest step that could run, and since when
        self._alarmed: set[str] = set()

    def round(self) -> Reaped:
        """Look once."""
        reaped = Reaped()
        for row in self._database.read(lambda tx: reaping.dead_leases(tx, now=self._database.now())):
            self._end_dead_lease(row, reaped)
        self._recover_untaken(reaped)
        now = self._database.now()
        look_at_keys_left_behind(self._database, now)
        overdue = _ago(now, self._retention_seconds)
        if self._database.read(lambda tx: reaping.is_anything_overdue(tx, now=now, before=overdue)):
            self._tidy_up(reaped, now)
        self._look_for_stalled_groups(reaped)
        return reaped

    def _end_dead_lease(self, row: DeadLease, reaped: Reaped) -> None:
        step_id, token, worker = row.id, row.lease_token, row.lease_worker
        now = self._database.now()
        if row.state is not State.RUNNING:
            if self._database.transact(lambda tx: _release_lease(tx, step_id, token, self._database.now())):
                reaped.release_lease.append(step_id)
            return
        error = f"its worker {worker} {_fate(row, now)} while it ran"
        back = now + timedelta(seconds=random.uniform(0, SPREAD_SECONDS * row.rescues))

        def work(tx: Transaction) -> State | None:
            # This transaction may have waited long for its turn, and the worker was heard of meanwhile.
            if reaping.is_dead(tx, id=step_id, token=token, now=self._database.now()) is None:
                return None
            changes = runs.rescue(
                tx, id=step_id, token=token, dispatch_after=back, limit=self._rescues, error=error, actor=ACTOR, now=now
            )
            return changes[0].to_state if changes else None

        state = self._database.transact(work)
        if state is None:
            return  # somebody was faster
        poison = state is State.FAILED
        (reaped.poisoned if poison else reaped.rescued).append(step_id)
        _LOGGER.warning("step %d (%s): %s; it is %s", step_id, row.action, error, state)
        self._events.publish(StepRescued(step_id, row.action, worker, poison))
        if poison:
            self._events.publish(FailureNotification(step_id, row.action, POISON, error))

    def _recover_untaken(self, reaped: Reaped) -> None:
        now = self._database.now()
        found = self._database.read(lambda tx: reaping.untaken(tx, now=now, before=_ago(now, self._untaken_seconds)))
        for row in found:

            def work(tx: Transaction, step_id: int = row.id) -> bool:
                return bool(reaping.recover(tx, id=step_id, actor=ACTOR, now=now))

            if self._database.transact(work):
                reaped.recovered.append(row.id)
                _LOGGER.warning("step %d (%s) was dispatched and nobody took it", row.id, row.action)

    def _tidy_up(self, reaped: Reaped, now: datetime) -> None:
        def work(tx: Transaction) -> None:
            reaped.workers_forgotten = reaping.forget_dead_workers(tx, before=_ago(now, self._retention_seconds))
            reaped.locks_released = reaping.release_dead_locks(tx, now=now)

        self._database.transact(work)

    def _look_for_stalled_groups(self, reaped: Reaped) -> None:
        """Eligible work, a free slot that serves it, and the same step at the head for too long."""
        now = self._database.now()

        def look(tx: Transaction) -> list[reaping.FirstInLine]:
            ticks.keep_to_indexes(tx)
            return reaping.first_in_line(tx, now=now)

        heads = {row.group: row.step_id for row in self._database.read(look)}
        self._waiting = {
            group: (head, self._waiting[group][1] if self._waiting.get(group, (0,))[0] == head else now)
            for group, head in heads.items()
        }
        for group, (head, since) in self._waiting.items():
            seconds = (now - since).total_seconds()
            if seconds < self._stalled_seconds:
                self._alarmed.discard(group)
            else:
                reaped.stalled.append(group)
                if group not in self._alarmed:
                    self._alarmed.add(group)
                    _LOGGER.error(
                        "group %s makes no progress: step %d could run for %.0f s and a slot is free; "
                        "is a dispatcher running? (stepwell explain %d)", group, head, seconds, head,
                    )  # fmt: skip
                    self._events.publish(GroupStalled(group, head, seconds))
        self._alarmed &= self._waiting.keys()


def _release_lease(tx: Transaction, step_id: int, token: int, now: datetime) -> bool:
    dead = reaping.is_dead(tx, id=step_id, token=token, now=now) is not None
    return dead and bool(runs.release_lease(tx, id=step_id, token=token, now=now))


def _fate(row: DeadLease, now: datetime) -> str:
    if row.alive_until is None:
        return "was gone"
    if row.alive_until <= now:
        return f"was not heard of after {row.heartbeat_at:%H:%M:%S} UTC"
    return "let its deadline pass"


def _ago(now: datetime, seconds: float) -> datetime:
    return now - timedelta(seconds=seconds)
