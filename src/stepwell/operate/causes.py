"""Finding the step at the start of each cascade, for `steps_trouble`."""

from __future__ import annotations

from typing import Final

from stepwell.model import codec
from stepwell.store import Database, Transaction
from stepwell.store.engine import trouble

RESOLVE_ROWS: Final = 5_000  # per transaction


def resolve_causes(database: Database, limit: int = RESOLVE_ROWS) -> int:
    """Set the cause of steps that cascades ended, at most this many; returns how many it set."""

    def resolve(tx: Transaction) -> int:
        before = {row.step_id: row.direct for row in trouble.unresolved(tx, limit=limit)}
        if not before:
            return 0
        known = {row.step_id: row.cause for row in trouble.causes_of(tx, ids=sorted(_others(before)))}
        return trouble.set_causes(
            tx, rows=codec.encode([(step, _start(step, before, known)) for step in sorted(before)])
        )

    return database.transact(resolve)


def _others(before: dict[int, int | None]) -> set[int]:
    return {direct for direct in before.values() if direct is not None and direct not in before}


def _start(step: int, before: dict[int, int | None], known: dict[int, int | None]) -> int | None:
    """The first step of the cascade that led to this one; None if what it followed is not in trouble any more.

    What is still to be resolved itself stands for its own start: a later call cannot know more.
    """
    at, seen = step, {step}
    while (direct := before.get(at)) is not None and direct not in seen:
        seen.add(direct)
        at = direct
    if at == step:
        return None
    return known.get(at) or at
