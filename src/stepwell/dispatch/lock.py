"""The lock of a group: a row with an owner, a token that only grows, and a deadline.

A dispatcher may take the lock, with a new token, when it is free or past its deadline. Every transaction of a tick
starts with the fence, which locks the row if the token is still current: a dispatcher that lost its lock commits
nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from stepwell.model.errors import LockLost
from stepwell.model.states import State
from stepwell.store import Database, Transaction
from stepwell.store.engine import settings, ticks
from stepwell.store.engine.ticks import Mark

# Longer than any healthy tick (a cascade over 100,000 steps takes a few seconds). Where a worker runs beside the
# dispatcher, the lock has the length of its lease instead: after a crash, both are taken over within that time.
LOCK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Survey:
    """What a tick reads when it starts: the breaker (phase 1), the marks, and which work the agenda has."""

    breaker_on: bool
    marks: list[Mark]
    marked_states: frozenset[State]
    unchecked: bool
    exhausted: bool
    due: bool
    undecided: Sequence[str]  # the features of steps that are ready but undecided, and of gates that are due


@dataclass(frozen=True, slots=True)
class GroupLock:
    """The lock of a group, held by one tick of one dispatcher."""

    group: str
    owner: str
    token: int
    tick: int
    previous_ended_early: bool
    survey: Survey

    def fence(self, tx: Transaction) -> None:
        """Check that the group is still ours, and keep it ours until this transaction ends."""
        if ticks.fence(tx, group=self.group, owner=self.owner, token=self.token) is None:
            raise LockLost(f"another dispatcher took over group {self.group}; this tick was aborted")


def acquire(database: Database, group: str, owner: str, seconds: float = LOCK_SECONDS) -> GroupLock | None:
    """Take the lock and insert a tick row; None while another dispatcher holds the lock."""

    def work(tx: Transaction) -> GroupLock | None:
        now = database.now()
        deadline = now + timedelta(seconds=seconds)
        taken = ticks.acquire_lock(tx, group=group, owner=owner, now=now, deadline=deadline)
        if taken is None:
            return None
        tick = ticks.begin_tick(tx, group=group, owner=owner, now=now)
        ticks.set_current_tick(tx, group=group, token=taken.lock_token, tick=tick)
        return GroupLock(group, owner, taken.lock_token, tick, taken.ended_early, _survey(tx, group, now))

    return database.transact(work)


def _survey(tx: Transaction, group: str, now: datetime) -> Survey:
    breaker = settings.breaker_state(tx)
    marks = ticks.marks_of_group(tx, group=group)
    pending = ticks.pending_work(tx, group=group, now=now)
    return Survey(
        breaker is not None and breaker.is_on,
        marks,
        frozenset(mark.state for mark in marks if mark.state is not None),
        pending.unchecked,
        pending.exhausted,
        pending.due,
        pending.features,
    )
