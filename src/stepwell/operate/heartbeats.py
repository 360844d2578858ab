"""Heartbeats as the reaper sees them: how long leases are, and which heartbeats cannot be judged by their time."""

from __future__ import annotations

import logging
import math
from datetime import datetime
from typing import Final

from stepwell.model.leases import LEASE_SECONDS
from stepwell.store import Database, Transaction
from stepwell.store.engine import reaping
from stepwell.store.engine.reaping import WorkerHeartbeat

_LOGGER: Final = logging.getLogger("stepwell.reaper")


class Heartbeats:
    """What one reaper remembers about heartbeats."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._from_the_future: dict[str, tuple[datetime, float]] = {}  # each with when it was first seen

    def longest_lease(self) -> float:
        """The longest lease that a worker was configured with, in seconds."""
        return max(map(_lease, self._database.read(reaping.heartbeats)), default=LEASE_SECONDS)

    def seconds_to_expiry(self) -> float:
        """Until the first of the leases that have not expired does, unless another heartbeat is written before."""
        now = self._database.now()
        left = [(row.alive_until - now).total_seconds() for row in self._database.read(reaping.heartbeats)]
        return min((seconds for seconds in left if seconds > 0), default=math.inf)

    def expire_from_the_future(self) -> None:
        """Expire heartbeats from the future that were not renewed for a whole lease.

        The clock was set back, and would keep a dead worker alive until it has caught up. How long a heartbeat has been
        there is measured by the monotonic clock: a live worker replaces it within a third of its lease.
        """
        now, elapsed = self._database.now(), self._database.clock.monotonic()
        found = [row for row in self._database.read(reaping.heartbeats) if row.heartbeat_at > now]
        seen = self._from_the_future
        self._from_the_future = {
            row.id: seen[row.id]
            if row.id in seen and seen[row.id][0] == row.heartbeat_at
            else (row.heartbeat_at, elapsed)
            for row in found
        }
        for row in found:
            if elapsed - self._from_the_future[row.id][1] >= _lease(row):
                self._expire(row)

    def _expire(self, row: WorkerHeartbeat) -> None:
        def work(tx: Transaction) -> int:
            return reaping.expire_worker(tx, worker=row.id, heartbeat_at=row.heartbeat_at, now=self._database.now())

        if self._database.transact(work):
            _LOGGER.warning(
                "worker %s: its last heartbeat is in the future (%s) and was not renewed for %.0f s; it counts as dead "
                "now. Was the clock set back?", row.id, f"{row.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC", _lease(row),
            )  # fmt: skip


def _lease(row: WorkerHeartbeat) -> float:
    return (row.alive_until - row.heartbeat_at).total_seconds()
