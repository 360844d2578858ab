"""Claiming steps: Dispatched to Running, under a new token and a lease.

A worker with a free slot does not wait for a tick: what is open in its lanes it dispatches and claims in one
transaction, while the breaker is on.
"""

from __future__ import annotations

from typing import Final

from stepwell.run.finish import Claim
from stepwell.run.worker_row import WorkerRow
from stepwell.store import Database, Transaction

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
        tx.rows("keep_to_indexes")
        statement = "pick_dispatched" if self._waits_for_ticks else "pick_for_claim"
        ids = [row["step_id"] for row in tx.rows(statement, worker=self._worker.id, limit=limit, high=high)]
        if not ids:
            return []
        rows = tx.rows(
            "claim",
            ids=tx.array(ids),
            worker=self._worker.id,
            actor=f"worker:{self._worker.id}",
            hostname=self._worker.hostname,
            now=now,
            margin=MARGIN_SECONDS,
        )
        claimed = {row["id"]: row for row in rows}
        return [Claim(id, claimed[id]["lease_token"], self._worker.id, claimed[id]) for id in ids if id in claimed]

    def is_there_work(self) -> bool:
        """A look that only reads."""
        return self._database.read(lambda tx: tx.value("is_there_work", worker=self._worker.id)) is not None
