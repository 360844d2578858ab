"""Rescheduling: dead and not_completed tasks become new.

Nothing else does that. While no reschedule beat runs, they wait, keep what they hold (a dead task its execution slot),
and their main processes cannot be queued.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stepwell.events import Events
from stepwell.model.actors import RESCHEDULE
from stepwell.operate.dead_leases import DeadLeases, Rescued
from stepwell.operate.heartbeats import Heartbeats
from stepwell.processes.depend_on import UNLIMITED
from stepwell.store import Database, Transaction
from stepwell.store.engine import agenda, processes


@dataclass(slots=True)
class Rescheduled(Rescued):
    """What one round did: `rescued` were dead, `cleared` not_completed."""

    cleared: list[int] = field(default_factory=list)


class Rescheduler:
    """Any number may run at once."""

    def __init__(self, database: Database, events: Events, round_seconds: float) -> None:
        self._database = database
        self.round_seconds = round_seconds
        self.rescheduled = 0  # tasks, since it was made
        self._dead_leases = DeadLeases(database, events, actor=RESCHEDULE, limit_of=_max_rescues, of_tasks=True)
        self._heartbeats = Heartbeats(database)

    def round(self) -> Rescheduled:
        """Check everything once."""
        done = Rescheduled()
        self._dead_leases.end_all(done)
        if self._database.read(processes.held_steps):
            done.cleared = self._database.transact(self._clear)
        self.rescheduled += len(done.rescued) + len(done.cleared)
        return done

    def longest_lease(self) -> float:
        """The longest lease of all workers, in seconds."""
        return self._heartbeats.longest_lease()

    def seconds_to_expiry(self) -> float:
        """Until the lease of a worker expires that writes no other heartbeat."""
        return self._heartbeats.seconds_to_expiry()

    def _clear(self, tx: Transaction) -> list[int]:
        """They become new; what is left of their cooldown still passes."""
        ids = processes.held_steps(tx)
        processes.clear_not_completed(tx, ids=ids)
        processes.release_held(tx, ids=ids)
        agenda.open_returned(tx, ids=ids, now=self._database.now())
        return ids


def _max_rescues(tx: Transaction, step_id: int) -> int:
    rows = processes.tasks_of_steps(tx, ids=[step_id])
    return next((row.max_rescues for row in rows if row.max_rescues is not None), UNLIMITED)
