"""On record: which claims that were made ahead of a free slot have begun.

When a worker dies, only the runs that had begun count as deaths of their steps. A claim for a free slot records that by
itself. A step that was claimed ahead usually ends within milliseconds after it begins; only if it does not is its begin
recorded, so that short steps cost no write.
"""

from __future__ import annotations

import math

from stepwell.model.claimed import Claim
from stepwell.run.executors import PREFETCH_SECONDS, Executor
from stepwell.store import Database
from stepwell.store.engine import runs


class Begins:
    """The begins of one worker's runs."""

    def __init__(self, database: Database, executor: Executor) -> None:
        self._database = database
        self._executor = executor
        self._seen: dict[tuple[int, int], Claim] = {}  # by the last look, not on record
        self._recorded: set[tuple[int, int]] = set()
        self._look_at = 0.0

    @property
    def next_at(self) -> float:
        """When the next look is due."""
        return self._look_at if self._seen else math.inf

    def record(self, now: float) -> None:
        """Record those that still run since the last look."""
        if now < self._look_at:
            return
        self._look_at = now + PREFETCH_SECONDS
        running = {claim.key: claim for claim in self._executor.running() if not claim.step.begun}
        self._recorded &= running.keys()
        lasting = [claim for key, claim in running.items() if key in self._seen and key not in self._recorded]
        if lasting:
            ids, tokens = [claim.step_id for claim in lasting], [claim.token for claim in lasting]
            self._database.transact(lambda tx: runs.record_begun(tx, ids=ids, tokens=tokens))
            self._recorded.update(claim.key for claim in lasting)
        self._seen = {key: claim for key, claim in running.items() if key not in self._recorded}
