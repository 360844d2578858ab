"""Ending dead leases: their steps return to Pending, or fail as poison.

A step is dead when it is Running under a dead lease: its worker has no row any more, the worker's heartbeat has lapsed,
or the lease is past its deadline. Dead is not a state: it is detected, and ended.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from stepwell.events import Events, FailureNotification, StepRescued
from stepwell.model.reasons import POISON
from stepwell.model.states import State
from stepwell.run.worker_row import ALIVE_SECONDS
from stepwell.store import Database, Transaction
from stepwell.store.engine import agenda, reaping, runs
from stepwell.store.engine.reaping import DeadLease

_LOGGER: Final = logging.getLogger("stepwell.reaper")

# When a worker dies with all its steps, it is unknown which of them killed it. From the second rescue on, their retries
# are spread over this many seconds per earlier rescue, so that most of the others are done when that one runs again.
RESCUE_SPREAD_SECONDS: Final = 10.0

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
        """End every dead lease, each in a transaction of its own."""
        dead = self._database.read(
            lambda tx: reaping.dead_leases(tx, of_tasks=self._of_tasks, now=self._database.now())
        )
        if dead:
            self._database.let_writers_pass()  # one of them may be a heartbeat
        for row in dead:
            self._end(row, done)

    def _end(self, row: DeadLease, done: Rescued) -> None:
        step_id, token, worker = row.id, row.lease_token, row.lease_worker
        if row.state is not State.RUNNING:
            if self._database.transact(lambda tx: _release_lease(tx, step_id, token, self._database.now())):
                done.leases_released.append(step_id)
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
                limit=self._limit_of(tx, step_id),
                began=False,  # only if it is on record
                error=error,
                actor=self._actor,
                now=now,
            )
            if changes and changes[0].to_state is State.PENDING:
                agenda.open_returned(tx, ids=[step_id], now=now)
            return changes[0].to_state if changes else None

        state = self._database.transact(work)
        if state is None:
            return  # another process was faster, or the worker is alive
        poison = state is State.FAILED
        (done.poisoned if poison else done.rescued).append(step_id)
        _LOGGER.warning("step %d (%s): %s; now %s", step_id, row.action, error, state)
        self._events.publish(StepRescued(step_id, row.action, worker, poison))
        if poison:
            self._events.publish(FailureNotification(step_id, row.action, POISON, error))


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
