"""The lock of a group: a row with an owner, a token that only grows, and a deadline.

Whoever finds it free or past its deadline takes it and a new token with it. Every transaction of a tick begins at the
fence, which holds the row while it is still ours: a dispatcher that was paused and overtaken commits nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from stepwell.model.errors import LockLost
from stepwell.model.states import State
from stepwell.store import Database, Transaction
from stepwell.store.engine import settings, ticks

# Longer than any healthy tick (a cascade over 100,000 steps takes a few seconds), short enough for a takeover
# to be soon after a crash.
LOCK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is to look at when a tick begins: the breaker (phase 1), marks, and what is on the agenda."""

    breaker_on: bool
    marks: list[int]
    marked_states: frozenset[State]
    unchecked: bool
    exhausted: bool
    due: bool


@dataclass(frozen=True, slots=True)
class GroupLock:
    """Held by one tick of one dispatcher."""

    group: str
    owner: str
    token: int
    tick: int
    previous_ended_early: bool
    survey: Survey
    seconds: float = LOCK_SECONDS

    def fence(self, tx: Transaction) -> None:
        """Make sure, to the end of this transaction, that the group is still ours."""
        idle_ms = str(int(1000 * self.seconds))
        if ticks.fence(tx, group=self.group, owner=self.owner, token=self.token, idle_ms=idle_ms) is None:
            raise LockLost(f"group {self.group} was taken over by another dispatcher; this tick changes nothing more")


def take(database: Database, group: str, owner: str, seconds: float = LOCK_SECONDS) -> GroupLock | None:
    """The lock and a new tick row, or None while another dispatcher has it."""

    def work(tx: Transaction) -> GroupLock | None:
        now = database.now()
        deadline = now + timedelta(seconds=seconds)
        taken = ticks.take_lock(tx, group=group, owner=owner, now=now, deadline=deadline)
        if taken is None:
            return None
        tick = ticks.begin_tick(tx, group=group, owner=owner, now=now)
        ticks.note_current_tick(tx, group=group, token=taken.lock_token, tick=tick)
        return GroupLock(group, owner, taken.lock_token, tick, taken.ended_early, _survey(tx, group, now), seconds)

    return database.transact(work)


def _survey(tx: Transaction, group: str, now: datetime) -> Survey:
    breaker = settings.breaker_state(tx)
    marks = ticks.marks_of_group(tx, group=group)
    business = ticks.unfinished_business(tx, group=group, now=now)
    return Survey(
        breaker is not None and breaker.is_on,
        [mark.id for mark in marks],
        frozenset(mark.state for mark in marks if mark.state is not None),
        business.unchecked,
        business.exhausted,
        business.due,
    )
