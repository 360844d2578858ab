"""Claiming steps: Dispatched to Running, under a new token and a lease.

A worker with a free slot does not wait for a tick: what is open in its lanes it dispatches and claims in one
transaction, while the breaker is on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stepwell.run.finish import Claim
from stepwell.run.worker_row import WorkerRow
from stepwell.store import Database, Row, Transaction

# What a lease with a timeout lasts beyond timeout and cooldown: time for the worker to notice and to say so.
MARGIN_SECONDS: Final = 30.0
# Urgent steps come first in so many claims out of one more: constant urgent work does not starve the rest.
URGENT_TURNS: Final = 8


class Claimer:
    """Claims for one worker."""

    def __init__(self, database: Database, worker: WorkerRow, *, waits_for_ticks: bool = False) -> None:
        self._database = database
        self._worker = worker
        self._waits_for_ticks = waits_for_ticks
        self._turn = 0

    def claim(self, tx: Transaction, limit: int) -> list[Claim]:
        """As many as `limit`, in the order in which they are to begin."""
        now = self._database.now()  # not before the transaction: it may have waited for the one that dispatched
        self._turn += 1
        high = limit - limit // 8 - (self._turn % URGENT_TURNS == 0)
        actor = f"worker:{self._worker.id}"
        if not self._waits_for_ticks:
            self._dispatch(tx, limit, high, actor)
        rows = tx.rows(
            "claim",
            worker=self._worker.id,
            actor=actor,
            hostname=self._worker.hostname,
            limit=limit,
            high=high,
            now=now,
            margin=MARGIN_SECONDS,
        )
        return [Claim(row["id"], row["lease_token"], self._worker.id, row) for row in _in_order(rows)]

    def _dispatch(self, tx: Transaction, limit: int, high: int, actor: str) -> None:
        if tx.value("breaker_for_dispatch") != "on":
            return
        limit -= int(tx.value("count_dispatched", worker=self._worker.id))
        if limit <= 0:
            return
        ids = [row["step_id"] for row in tx.rows("pick_for_claim", worker=self._worker.id, limit=limit, high=high)]
        if ids:
            tx.change("dispatch", ids=tx.array(ids), actor=actor, tick=None, now=self._database.now())

    def is_there_work(self) -> bool:
        """A look that only reads."""
        return self._database.read(lambda tx: tx.value("is_there_work", worker=self._worker.id)) is not None


def _in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["priority"] != "high", row["id"]))
