"""Rows that were set aside, so that they block no others: an entry in the tick log says which, and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from stepwell.model import codec
from stepwell.store import Transaction
from stepwell.store.engine import ticks

PHASE: Final = "set_aside"
STEPS_NAMED: Final = 10  # a batch of 500 bad rows is one entry
_MAX_TEXT: Final = 500


def log_set_aside(tx: Transaction, rows: Sequence[tuple[int, str]], owner: str, now: datetime) -> None:
    """One entry for these steps, each with its reason; part of the transaction that sets them aside."""
    if not rows:
        return
    phase = {
        "phase": 0,
        "name": PHASE,
        "rows": len(rows),
        "steps": [id for id, _ in rows[:STEPS_NAMED]],
        "why": codec.clean_text(rows[0][1], _MAX_TEXT),
    }
    ticks.log_set_aside(tx, id=rows[0][0], owner=owner, now=now, progress=codec.encode([phase]))
