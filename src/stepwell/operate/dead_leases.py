"""Ending dead leases: their steps return to Pending, or fail as poison.

A step is dead when it is Running under a dead lease: its worker has no row any more, the worker's heartbeat has lapsed,
or the lease is past its deadline. Dead is not a state: it is detected, and ended.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from stepwell.events import Events, FailureNotification, StepRescued
from stepwell.model.errors import DatabaseUnavailable
from stepwell.model.leases import LEASE_SECONDS
from stepwell.model.reasons import POISON
from stepwell.model.states import State
from stepwell.store import Database, Transaction
from stepwell.store.engine import agenda, reaping, runs
from stepwell.store.engine.reaping import DeadLease

_LOGGER: Final = logging.getLogger("stepwell.reaper")

# When a worker dies with all its steps, it is unknown which of them killed it. From the second rescue on, their retries
# are spread over this many seconds per earlier rescue, so that most of the others are done when that one runs again.
RESCUE_SPREAD_SECONDS: Final = 10.0

# Leases that are ended in one transaction. A worker that dies may hold 256 of them: with a transaction each, they took
# 0.55 s on SQLite and 0.3 s on PostgreSQL (which did not sync to disk), like this 0.05 s and 0.1 s.
BATCH: Final = 64

# How many deaths in a row a step may survive.
LimitOf: TypeAlias = Callable[[Transaction, int], int]


@dataclass(slots=True)
class Rescued:
    """What happened to dead steps."""

    rescued: list[int] = field(default_factory=list)
    poisoned: list[int] = field(default_factory=list)
    leases_released: list[int] = field(default_factory=list)


class DeadLeases:
    """Those of running tasks of main processes (`of_tasks`), or all others. Any number of processes may end them."""

    def __init__(
        self, database: Database, events: Events, *, actor: str, limit_of: LimitOf, of_tasks: bool = False
    ) -> None:
        self._database = database
        self._events = events
        self._actor = actor
        self._limit_of = limit_of
        self._of_tasks = of_tasks

    def end_all(self, done: Rescued) -> None:
        """End every dead lease. A step that cannot be rescued does not keep the others from it."""
        dead = self._database.read(
            lambda tx: reaping.dead_leases(tx, of_tasks=self._of_tasks, now=self._database.now())
        )
        if dead:
            self._database.let_writers_pass()  # one of them may be a heartbeat
        for start in range(0, len(dead), BATCH):
            batch = dead[start : start + BATCH]
            try:
                self._end(batch, done)
            except DatabaseUnavailable:
                raise
            except Exception:
                _LOGGER.exception("cannot end %d leases in one transaction; ending them one by one", len(batch))
                for row in batch:
                    self._end_alone(row, done)

    def _end_alone(self, row: DeadLease, done: Rescued) -> None:
        try:
            self._end([row], done)
        except DatabaseUnavailable:
            raise
        except Exception:
            _LOGGER.exception("cannot end the lease of step %d; the next round tries again", row.id)

    def _end(self, rows: Sequence[DeadLease], done: Rescued) -> None:
        """End some leases in one transaction."""

        def work(tx: Transaction) -> list[tuple[DeadLease, State, str]]:
            # This transaction may have waited for a lock, and the worker may have sent a heartbeat meanwhile.
            now = self._database.now()
            found = reaping.still_dead(tx, ids=[row.id for row in rows], now=now)
            dead = {(each.id, each.lease_token) for each in found}
            ended = []
            for row in rows:
                error = f"the lease of worker {row.lease_worker} expired: {_why_dead(row, now)}"
                if (row.id, row.lease_token) in dead and (state := self._end_one(tx, row, error, now)) is not None:
                    ended.append((row, state, error))
            agenda.open_returned(tx, ids=[row.id for row, state, _ in ended if state is State.PENDING], now=now)
            return ended

        for row, state, error in self._database.transact(work):
            if row.state is not State.RUNNING:
                done.leases_released.append(row.id)
                continue
            poison = state is State.FAILED
            (done.poisoned if poison else done.rescued).append(row.id)
            _LOGGER.warning("step %d (%s): %s; now %s", row.id, row.action, error, state)
            self._events.publish(StepRescued(row.id, row.action, row.lease_worker, poison))
            if poison:
                self._events.publish(FailureNotification(row.id, row.action, POISON, error))

    def _end_one(self, tx: Transaction, row: DeadLease, error: str, now: datetime) -> State | None:
        """Returns the state of the step, or None if another process was faster."""
        if row.state is not State.RUNNING:
            return row.state if runs.release_lease(tx, id=row.id, token=row.lease_token, now=now) else None
        changes = runs.rescue(
            tx,
            id=row.id,
            token=row.lease_token,
            dispatch_after=now + timedelta(seconds=random.uniform(0, _spread_seconds(row))),
            limit=self._limit_of(tx, row.id),
            began=False,  # only if it is on record
            error=error,
            actor=self._actor,
            now=now,
        )
        return changes[0].to_state if changes else None


def _spread_seconds(row: DeadLease) -> float:
    """Over how many seconds to spread the retries: less if the lease, and so the time to a rescue, was short."""
    share = 1.0
    if row.alive_until is not None and row.heartbeat_at is not None:
        share = min(share, (row.alive_until - row.heartbeat_at).total_seconds() / LEASE_SECONDS)
    return RESCUE_SPREAD_SECONDS * row.rescues * share


def _why_dead(row: DeadLease, now: datetime) -> str:
    if row.alive_until is None:
        return "the worker is no longer registered"
    if row.alive_until <= now:
        return f"its last heartbeat was at {row.heartbeat_at:%H:%M:%S} UTC"
    return "the step ran past its deadline"
