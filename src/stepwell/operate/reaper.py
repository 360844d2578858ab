"""The reaper: rescues the steps of dead workers, and reports groups that make no progress.

A step is dead when it is Running under a dead lease: its worker has no row any more, the worker's heartbeat has lapsed,
or the lease is past its deadline. Dead is not a state: the reaper detects it and ends it. Any number of reapers may
run at once.
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
from stepwell.operate.heartbeats import Heartbeats
from stepwell.run.finish import MAX_RESCUES
from stepwell.run.worker_row import ALIVE_SECONDS
from stepwell.share.limits import recheck_keys_of_dead_workers
from stepwell.store import Database, Transaction
from stepwell.store.engine import agenda, reaping, runs, ticks
from stepwell.store.engine.reaping import DeadLease

_LOGGER: Final = logging.getLogger("stepwell.reaper")

ACTOR: Final = "reaper"
ROUND_SECONDS: Final = 5.0
# A Dispatched step that no worker has claimed for this long returns to Pending: others may have priority by now.
UNCLAIMED_SECONDS: Final = 300.0
# The rows of dead workers are kept this long, for people to see.
DEAD_WORKER_RETENTION_SECONDS: Final = 300.0
STALLED_SECONDS: Final = 60.0
# When a worker dies with all its steps, it is unknown which of them killed it. From the second rescue on, their retries
# are spread over this many seconds per earlier rescue, so that most of the others are done when that one runs again.
RESCUE_SPREAD_SECONDS: Final = 10.0


@dataclass(slots=True)
class Reaped:
    """What one round did."""

    rescued: list[int] = field(default_factory=list)
    poisoned: list[int] = field(default_factory=list)
    leases_released: list[int] = field(default_factory=list)
    recovered: list[int] = field(default_factory=list)
    workers_deleted: int = 0
    locks_released: int = 0
    stalled: list[str] = field(default_factory=list)


class ReaperOptions(TypedDict, total=False):
    """The keyword arguments of `app.reaper(…)`: all have a default."""

    round_seconds: float
    unclaimed_seconds: float
    stalled_seconds: float
    dead_worker_retention_seconds: float
    rescues: int


class Reaper:
    """Cleans up after dead workers and dispatchers."""

    def __init__(
        self,
        database: Database,
        events: Events,
        *,
        round_seconds: float = ROUND_SECONDS,
        unclaimed_seconds: float = UNCLAIMED_SECONDS,
        stalled_seconds: float = STALLED_SECONDS,
        dead_worker_retention_seconds: float = DEAD_WORKER_RETENTION_SECONDS,
        rescues: int = MAX_RESCUES,
    ) -> None:
        self._database = database
        self._events = events
        self.round_seconds = round_seconds
        self._unclaimed_seconds = unclaimed_seconds
        self._stalled_seconds = stalled_seconds
        self._retention_seconds = dead_worker_retention_seconds
        self._rescues = rescues
        self._heartbeats = Heartbeats(database)
        self._waiting: dict[str, tuple[int, datetime]] = {}  # per group: the first runnable step, and since when
        self._reported_stalled: set[str] = set()

    def round(self) -> Reaped:
        """Check everything once."""
        reaped = Reaped()
        self._report_stalled_groups(reaped)  # first: it only reads, and the rest may have to wait for a lock
        self._heartbeats.expire_from_the_future()
        if dead := self._database.read(lambda tx: reaping.dead_leases(tx, now=self._database.now())):
            self._database.let_writers_pass()  # one of them may be a heartbeat
        for row in dead:
            self._end_dead_lease(row, reaped)
        self._recover_unclaimed(reaped)
        now = self._database.now()
        recheck_keys_of_dead_workers(self._database, now)
        overdue = _ago(now, self._retention_seconds)
        if self._database.read(lambda tx: reaping.has_expired_rows(tx, now=now, before=overdue)):
            self._delete_expired_rows(reaped, now)
        return reaped

    def longest_lease(self) -> float:
        """The longest lease of all workers, in seconds."""
        return self._heartbeats.longest_lease()

    def _end_dead_lease(self, row: DeadLease, reaped: Reaped) -> None:
        step_id, token, worker = row.id, row.lease_token, row.lease_worker
        if row.state is not State.RUNNING:
            if self._database.transact(lambda tx: _release_lease(tx, step_id, token, self._database.now())):
                reaped.leases_released.append(step_id)
            return
        error = f"the lease of worker {worker} expired: {_why_dead(row, self._database.now())}"
        delay = timedelta(seconds=random.uniform(0, _spread_seconds(row)))

        def work(tx: Transaction) -> State | None:
            # This transaction may have waited for a lock, and the worker may have sent a heartbeat meanwhile.
            now = self._database.now()
            if reaping.is_lease_dead(tx, id=step_id, token=token, now=now) is None:
                return None
            changes = runs.rescue(
                tx,
                id=step_id,
                token=token,
                dispatch_after=now + delay,
                limit=self._rescues,
                began=False,  # only if it is on record
                error=error,
                actor=ACTOR,
                now=now,
            )
            if changes and changes[0].to_state is State.PENDING:
                agenda.open_returned(tx, ids=[step_id], now=now)
            return changes[0].to_state if changes else None

        state = self._database.transact(work)
        if state is None:
            return  # another reaper was faster, or the worker is alive
        poison = state is State.FAILED
        (reaped.poisoned if poison else reaped.rescued).append(step_id)
        _LOGGER.warning("step %d (%s): %s; now %s", step_id, row.action, error, state)
        self._events.publish(StepRescued(step_id, row.action, worker, poison))
        if poison:
            self._events.publish(FailureNotification(step_id, row.action, POISON, error))

    def _recover_unclaimed(self, reaped: Reaped) -> None:
        now = self._database.now()
        found = self._database.read(
            lambda tx: reaping.unclaimed(tx, now=now, before=_ago(now, self._unclaimed_seconds))
        )
        for row in found:

            def work(tx: Transaction, step_id: int = row.id) -> bool:
                return bool(reaping.recover(tx, id=step_id, actor=ACTOR, now=self._database.now()))

            if self._database.transact(work):
                reaped.recovered.append(row.id)
                _LOGGER.warning(
                    "step %d (%s) was dispatched, but no worker claimed it; returned to Pending", row.id, row.action
                )

    def _delete_expired_rows(self, reaped: Reaped, now: datetime) -> None:
        def work(tx: Transaction) -> None:
            reaped.workers_deleted = reaping.delete_dead_workers(tx, before=_ago(now, self._retention_seconds))
            reaped.locks_released = reaping.release_dead_locks(tx, now=now)

        self._database.transact(work)

    def _report_stalled_groups(self, reaped: Reaped) -> None:
        """Report groups where a step has been first for too long although a slot for it is free."""
        now = self._database.now()

        def look(tx: Transaction) -> list[reaping.NextRunnable]:
            ticks.keep_to_indexes(tx)
            return reaping.next_runnable_by_group(tx, now=now)

        heads = {row.group: row.step_id for row in self._database.read(look)}
        self._waiting = {
            group: (head, self._waiting[group][1] if self._waiting.get(group, (0,))[0] == head else now)
            for group, head in heads.items()
        }
        for group, (head, since) in self._waiting.items():
            seconds = (now - since).total_seconds()
            if seconds < self._stalled_seconds:
                self._reported_stalled.discard(group)
            else:
                reaped.stalled.append(group)
                if group not in self._reported_stalled:
                    self._reported_stalled.add(group)
                    _LOGGER.error(
                        "group %s makes no progress: step %d has been ready for %.0f s and a slot is free; "
                        "is a dispatcher running? (stepwell explain %d)", group, head, seconds, head,
                    )  # fmt: skip
                    self._events.publish(GroupStalled(group, head, seconds))
        self._reported_stalled &= self._waiting.keys()


def _release_lease(tx: Transaction, step_id: int, token: int, now: datetime) -> bool:
    dead = reaping.is_lease_dead(tx, id=step_id, token=token, now=now) is not None
    return dead and bool(runs.release_lease(tx, id=step_id, token=token, now=now))


def _spread_seconds(row: DeadLease) -> float:
    """Over how many seconds to spread the retries: less if the lease, and so the time to a rescue, was short."""
    share = 1.0
    if row.alive_until is not None and row.heartbeat_at is not None:
        share = min(share, (row.alive_until - row.heartbeat_at).total_seconds() / ALIVE_SECONDS)
    return RESCUE_SPREAD_SECONDS * row.rescues * share


def _why_dead(row: DeadLease, now: datetime) -> str:
    if row.alive_until is None:
        return "the worker is no longer registered"
    if row.alive_until <= now:
        return f"its last heartbeat was at {row.heartbeat_at:%H:%M:%S} UTC"
    return "the step ran past its deadline"


def _ago(now: datetime, seconds: float) -> datetime:
    return now - timedelta(seconds=seconds)
