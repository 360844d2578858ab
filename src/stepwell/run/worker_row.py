"""A worker's row: its identity, the lanes it serves, and until when it counts as alive."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

from stepwell.model.clock import since_boot
from stepwell.model.leases import LEASE_SECONDS
from stepwell.model.this_process import unique_name
from stepwell.share.keys import recheck_keys_of_lanes
from stepwell.store import Database, Transaction
from stepwell.store.engine import creation, workers


class UnorderedQueues(tuple[str, ...]):
    """Queues that are served without preference."""

    __slots__ = ()


def default_queues(declared: Iterable[str] = ()) -> UnorderedQueues:
    """The queues of a worker that names none: the built-in ones, its host's, and those that the app declares."""
    return UnorderedQueues(
        dict.fromkeys(("default", "priority", "candles", "indicators", _hostname(), *sorted(declared)))
    )


def _hostname() -> str:
    return socket.gethostname().lower()


class WorkerRow:
    """Registered under a random id, so that no two workers are confused."""

    def __init__(
        self,
        database: Database,
        queues: Sequence[str],
        actions: Collection[str],
        slots: int,
        alive_seconds: float = LEASE_SECONDS,
        groups: Collection[str] = (),
    ) -> None:
        self._database = database
        self.hostname = _hostname()
        self.queues = tuple(queues) or default_queues()
        in_order = () if isinstance(queues, UnorderedQueues) else queues
        self._places = {queue: place for place, queue in enumerate(in_order, 1)}
        self.actions = frozenset(actions)
        self.groups = tuple(sorted(set(groups)))  # empty: all
        self.slots = slots
        self.alive_seconds = alive_seconds
        database.use_lease(alive_seconds)
        self.id = ""
        self.expires_at = 0.0  # by `since_boot`; never later than the `alive_until` of the row
        self.lapses = 0  # how many times the row had expired before the next heartbeat
        self.register()

    def register(self) -> None:
        """Insert the row, under a new id."""
        self.id = unique_name()
        at = since_boot()
        self._database.transact(self._register)
        self.expires_at = at + self.alive_seconds
        self._recheck_keys()

    def _register(self, tx: Transaction) -> None:
        now = self._database.now()
        for queue in {*self.queues, self.hostname}:
            creation.add_queue(tx, name=queue)
        workers.register_worker(
            tx,
            id=self.id,
            hostname=self.hostname,
            pid=os.getpid(),
            slots=self.slots,
            now=now,
            alive_until=now + timedelta(seconds=self.alive_seconds),
        )
        lanes = [
            (queue, action, group, self._places.get(queue, 0))
            for queue in dict.fromkeys(self.queues)
            for action in sorted(self.actions)
            for group in self.groups or ("",)
        ]
        workers.add_lanes(tx, self.id, lanes)

    def heartbeat(self) -> bool:
        """Extend the lease of the worker. False: the row is gone, because the worker was declared dead."""
        at = since_boot()
        written = write_heartbeat(self._database, self.id, self.alive_seconds)
        if written:
            self.note_heartbeat(at)
        return written

    def note_heartbeat(self, at: float) -> None:
        """A heartbeat was written that began at this time."""
        if since_boot() >= self.expires_at:
            self.lapses += 1
        self.expires_at = max(self.expires_at, at + self.alive_seconds)

    def seconds_left(self) -> float:
        """Until the row expires; while this is negative, the steps of this worker may go to others."""
        return self.expires_at - since_boot()

    def unregister(self) -> None:
        self._database.transact(lambda tx: workers.delete_worker(tx, id=self.id))
        self._recheck_keys()

    def _recheck_keys(self) -> None:
        recheck_keys_of_lanes(self._database, set(self.queues), self.actions, self.id, self._database.now())


def write_heartbeat(database: Database, worker_id: str, alive_seconds: float) -> bool:
    """Extend a worker's `alive_until`; if it had lapsed, the keys in its lanes are decided again."""

    def work(tx: Transaction) -> tuple[bool, list[workers.LaneRow]]:
        previous = workers.lock_worker(tx, worker=worker_id)
        if previous is None:
            return False, []
        now = database.now()  # after any wait for other writers: a heartbeat must not be old when it is written
        workers.heartbeat(tx, id=worker_id, now=now, alive_until=now + timedelta(seconds=alive_seconds))
        return True, workers.lanes_of_worker(tx, worker=worker_id) if previous <= now else []

    is_registered, lanes = database.transact(work)
    if lanes:
        queues, actions = {lane.queue for lane in lanes}, {lane.action for lane in lanes}
        recheck_keys_of_lanes(database, queues, actions, worker_id, database.now())
    return is_registered
