"""Finding the step at the start of each cascade, for `steps_trouble`; adding up the failures of each cause."""

from __future__ import annotations

from collections import Counter as Sums
from typing import Final, TypeAlias

from stepwell.model import codec
from stepwell.store import Database, Transaction
from stepwell.store.engine import trouble

RESOLVE_ROWS: Final = 5_000  # per transaction
Start: TypeAlias = tuple[int | None, str | None]  # the step at the start of a cascade, and its fingerprint


def resolve_causes(database: Database, limit: int = RESOLVE_ROWS) -> int:
    """Set the cause of steps that cascades ended, at most this many; returns how many it set."""

    def resolve(tx: Transaction) -> int:
        before = {row.step_id: row for row in trouble.unresolved(tx, limit=limit)}
        if not before:
            return 0
        known = {row.step_id: row for row in trouble.causes_of(tx, ids=sorted(_others(before)))}
        rows = [(step, *_start(step, before, known)) for step in sorted(before)]
        return trouble.set_causes(tx, rows=codec.encode(rows))

    return database.transact(resolve)


def _others(before: dict[int, trouble.Cascaded]) -> set[int]:
    return {row.direct for row in before.values() if row.direct is not None and row.direct not in before}


def _start(step: int, before: dict[int, trouble.Cascaded], known: dict[int, trouble.CauseOf]) -> Start:
    """The first step of the cascade that led to this one; None if what it followed is not in trouble any more.

    What is still to be resolved itself stands for its own start: a later call cannot know more.
    """
    at, seen = step, {step}
    while at in before and (direct := before[at].direct) is not None and direct not in seen:
        seen.add(direct)
        at = direct
    if at == step:
        return None, None
    if at in before:
        return at, before[at].fingerprint
    return (known[at].cause or at, known[at].fingerprint) if at in known else (None, None)


def fold_causes(tx: Transaction, limit: int) -> bool:
    """Add at most this many changes to the numbers of the causes; returns whether there were any."""
    changes = trouble.take_causes(tx, limit=limit)
    numbers, behind = Sums[str](), Sums[str]()
    for change in changes:
        numbers[change.fingerprint] += change.number
        behind[change.fingerprint] += change.behind
    # In order: two folds at once must not wait for each other in a circle.
    rows = [(cause, numbers[cause], behind[cause]) for cause in sorted(numbers) if numbers[cause] or behind[cause]]
    if rows:
        trouble.add_to_causes(tx, rows=codec.encode(rows))
    return bool(changes)


def recount_causes(tx: Transaction) -> None:
    trouble.empty_causes_tally(tx)
    trouble.empty_causes(tx)
    trouble.count_causes_again(tx)
