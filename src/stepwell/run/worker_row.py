"""A worker's row: who it is, what it serves, and until when it counts as alive."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from stepwell.store import Database, Transaction

ALIVE_SECONDS: Final = 30.0


class WorkerRow:
    """Registered under a random name of its own: two workers are never taken for each other."""

    def __init__(self, database: Database, queues: Sequence[str], actions: Collection[str], slots: int) -> None:
        self._database = database
        self.id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.hostname = socket.gethostname().lower()
        self.queues = tuple(queues) or ("default", "priority", "candles", "indicators", self.hostname)
        self.actions = frozenset(actions)
        self.slots = slots
        self._database.transact(self._register)

    def _register(self, tx: Transaction) -> None:
        now = self._database.now()
        for queue in {*self.queues, self.hostname}:
            tx.change("add_queue", name=queue)
        alive_until = now + timedelta(seconds=ALIVE_SECONDS)
        tx.change(
            "register_worker",
            id=self.id,
            hostname=self.hostname,
            pid=os.getpid(),
            slots=self.slots,
            now=now,
            alive_until=alive_until,
        )
        lanes = [(queue, action, self.id) for queue in self.queues for action in sorted(self.actions)]
        tx.insert("worker_lanes", ("queue", "action", "worker_id"), lanes)

    def heartbeat(self) -> None:
        now = self._database.now()
        alive_until = now + timedelta(seconds=ALIVE_SECONDS)
        self._database.transact(lambda tx: tx.change("heartbeat", id=self.id, now=now, alive_until=alive_until))

    def sign_off(self) -> None:
        self._database.transact(lambda tx: tx.change("forget_worker", id=self.id))
