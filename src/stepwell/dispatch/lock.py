"""The lock of a group: a row with an owner, a token that only grows, and a deadline.

Whoever finds it free or past its deadline takes it and a new token with it. Every transaction of a tick begins at the
fence, which holds the row while it is still ours: a dispatcher that was paused and overtaken commits nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from stepwell.model.errors import LockLost
from stepwell.store import Database, Transaction

# Longer than any healthy tick (a cascade over 100,000 steps takes a few seconds), short enough for a takeover
# to be soon after a crash.
LOCK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class GroupLock:
    """Held by one tick of one dispatcher."""

    group: str
    owner: str
    token: int
    tick: int
    previous_ended_early: bool

    def fence(self, tx: Transaction) -> None:
        """Make sure, to the end of this transaction, that the group is still ours."""
        if tx.row("fence", group=self.group, owner=self.owner, token=self.token) is None:
            raise LockLost(f"group {self.group} was taken over by another dispatcher; this tick changes nothing more")


def take(database: Database, group: str, owner: str) -> GroupLock | None:
    """The lock and a new tick row, or None while another dispatcher has it."""

    def work(tx: Transaction) -> GroupLock | None:
        now = database.now()
        deadline = now + timedelta(seconds=LOCK_SECONDS)
        row = tx.row("take_lock", group=group, owner=owner, now=now, deadline=deadline)
        if row is None:
            return None
        tick = tx.value("begin_tick", group=group, owner=owner, now=now)
        tx.change("note_current_tick", group=group, token=row["lock_token"], tick=tick)
        return GroupLock(group, owner, row["lock_token"], tick, bool(row["ended_early"]))

    return database.transact(work)
