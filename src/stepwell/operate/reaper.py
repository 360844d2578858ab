"""The reaper: rescues the steps of dead workers, and reports groups that make no progress.

What is dead is defined in `operate.dead_leases`. Running tasks of main processes are left to the reschedule beat. Any
number of reapers may run at once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypedDict

from stepwell.define.registry import Registry
from stepwell.enqueue.unresolved import resolve_late
from stepwell.events import Events, GroupStalled
from stepwell.model.actors import REAPER
from stepwell.operate.dead_leases import DeadLeases, Rescued
from stepwell.operate.heartbeats import Heartbeats
from stepwell.run.finish import MAX_RESCUES
from stepwell.share.keys import recheck_keys_of_dead_workers
from stepwell.store import Database, Transaction
from stepwell.store.engine import reaping, ticks

_LOGGER: Final = logging.getLogger("stepwell.reaper")

ROUND_SECONDS: Final = 5.0
# A Dispatched step that no worker has claimed for this long returns to Pending: others may have priority by now.
UNCLAIMED_SECONDS: Final = 300.0
# The rows of dead workers are kept this long, for people to see.
DEAD_WORKER_RETENTION_SECONDS: Final = 300.0
# A group that has work and a free slot and does not move for this long makes no progress.
STALLED_SECONDS: Final = 60.0


@dataclass(slots=True)
class Reaped(Rescued):
    """What one round did."""

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
        self._dead_leases = DeadLeases(database, events, actor=REAPER, limit_of=lambda tx, step_id: rescues)
        self._heartbeats = Heartbeats(database)
        self._waiting: dict[str, tuple[int, datetime]] = {}  # per group: the first runnable step, and since when
        self._reported_stalled: set[str] = set()

    def round(self) -> Reaped:
        """Check everything once."""
        reaped = Reaped()
        self._report_stalled_groups(reaped)  # first: it only reads, and the rest may have to wait for a lock
        self._heartbeats.expire_from_the_future()
        self._dead_leases.end_all(reaped)
        self._recover_unclaimed(reaped)
        now = self._database.now()
        recheck_keys_of_dead_workers(self._database, now)
        resolve_late(self._database, Registry())
        old = _ago(now, self._retention_seconds)
        if self._database.read(lambda tx: reaping.has_expired_rows(tx, now=now, before=old)):
            self._delete_expired_rows(reaped, now)
        return reaped

    def longest_lease(self) -> float:
        """The longest lease of all workers, in seconds."""
        return self._heartbeats.longest_lease()

    def seconds_to_expiry(self) -> float:
        """Until the lease of a worker expires that writes no other heartbeat."""
        return self._heartbeats.seconds_to_expiry()

    def _recover_unclaimed(self, reaped: Reaped) -> None:
        now = self._database.now()
        found = self._database.read(
            lambda tx: reaping.unclaimed(tx, now=now, before=_ago(now, self._unclaimed_seconds))
        )
        for row in found:

            def work(tx: Transaction, step_id: int = row.id) -> bool:
                return bool(reaping.recover(tx, id=step_id, actor=REAPER, now=self._database.now()))

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
                    writer = self._database.suspended_writer()
                    _LOGGER.error(
                        "group %s makes no progress: step %d has been ready for %.0f s and a slot is free; %s "
                        "(stepwell explain %d)", group, head, seconds, writer or "is a dispatcher running?", head,
                    )  # fmt: skip
                    self._events.publish(GroupStalled(group, head, seconds))
        self._reported_stalled &= self._waiting.keys()


def _ago(now: datetime, seconds: float) -> datetime:
    return now - timedelta(seconds=seconds)
