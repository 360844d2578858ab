"""A worker's row: who it is, what it serves, and until when it counts as alive."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from stepwell.store import Database, Transaction

# A worker that has not been heard of for this long is taken for dead, and its steps are brought back.
ALIVE_SECONDS: Final = 30.0


class WorkerRow:
    """Registered under a random name of its own: two workers are never taken for each other."""

    def __init__(
        self,
        database: Database,
        queues: Sequence[str],
        actions: Collection[str],
        slots: int,
        alive_seconds: float = ALIVE_SECONDS,
    ) -> None:
        self._database = database
        self.hostname = socket.gethostname().lower()
        self._places = {queue: place for place, queue in enumerate(queues, 1)}
        self.queues = tuple(queues) or ("default", "priority", "candles", "indicators", self.hostname)
        self.actions = frozenset(actions)
        self.slots = slots
        self.alive_seconds = alive_seconds
        self.id = ""
        self.register()

    def register(self) -> None:
        """Sign on, under a new name."""
        self.id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._database.transact(self._register)

    def _register(self, tx: Transaction) -> None:
        now = self._database.now()
        for queue in {*self.queues, self.hostname}:
            tx.change("add_queue", name=queue)
        tx.change(
            "register_worker",
            id=self.id,
            hostname=self.hostname,
            pid=os.getpid(),
            slots=self.slots,
            now=now,
            alive_until=now + timedelta(seconds=self.alive_seconds),
        )
        lanes = [
            (queue, action, self.id, self._places.get(queue, 0))
            for queue in dict.fromkeys(self.queues)
            for action in sorted(self.actions)
        ]
        tx.insert("worker_lanes", ("queue", "action", "worker_id", "place"), lanes)

    def heartbeat(self) -> bool:
        """Say that it is alive. False: the row is gone, for somebody has taken it for dead."""
        return beat(self._database, self.id, self.alive_seconds)

    def sign_off(self) -> None:
        self._database.transact(lambda tx: tx.change("forget_worker", id=self.id))


def beat(database: Database, worker_id: str, alive_seconds: float) -> bool:
    now = database.now()
    alive_until = now + timedelta(seconds=alive_seconds)
    changed = database.transact(lambda tx: tx.change("heartbeat", id=worker_id, now=now, alive_until=alive_until))
    return bool(changed)
