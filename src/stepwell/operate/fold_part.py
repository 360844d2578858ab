"""When the tally is folded: every two seconds, or at once while more than a fold takes is left; beside a dispatcher."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from stepwell.operate.causes import RESOLVE_ROWS, resolve_causes
from stepwell.operate.fold import FOLD_ROWS, fold, forget_minutes
from stepwell.service.part import Part
from stepwell.store import Database, Wake
from stepwell.store.engine import counters, trouble

# What is not folded yet costs only readers something: they add it up themselves.
FOLD_SECONDS: Final = 2.0
FORGET_SECONDS: Final = 600.0


class FoldPart(Part):
    """Folds in a separate thread, so that no tick waits for it."""

    name = "fold"
    first_round_after = FOLD_SECONDS

    def __init__(self, database: Database, seconds: float = FOLD_SECONDS) -> None:
        self._database = database
        self._seconds = seconds

    def open(self) -> None:
        self._forget_at = self._database.clock.monotonic() + FORGET_SECONDS

    def round(self, wakes: Collection[Wake]) -> float:
        has_more = self._database.read(trouble.has_unresolved) and resolve_causes(self._database) == RESOLVE_ROWS
        length = self._database.read(lambda tx: counters.tally_length(tx, most=FOLD_ROWS))
        if length:
            fold(self._database, FOLD_ROWS)
        now = self._database.clock.monotonic()
        if now >= self._forget_at:
            forget_minutes(self._database)
            self._forget_at = now + FORGET_SECONDS
        return 0.0 if has_more or length >= FOLD_ROWS else self._seconds
