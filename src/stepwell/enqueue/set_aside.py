"""Rows that were set aside, so that they block no others: an entry in the tick log says which, and why."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol

from stepwell.model import codec
from stepwell.model.errors import DatabaseUnavailable
from stepwell.store import Database, Transaction
from stepwell.store.changes import Change
from stepwell.store.engine import ticks

PHASE: Final = "set_aside"
STEPS_NAMED: Final = 10  # a batch of 500 bad rows is one entry
_MAX_TEXT: Final = 500


class Verb(Protocol):
    """Fails a step where it is; nothing of its row is read or trusted."""

    def __call__(self, tx: Transaction, /, *, id: int, actor: str, message: str, now: datetime) -> list[Change]: ...


def set_aside(
    database: Database, verb: Verb, id: int, message: str, *, actor: str, owner: str, logger: logging.Logger
) -> None:
    """Fail one step in a transaction of its own. If that is not possible either, the next round tries again."""
    logger.error("step %d is set aside: %s", id, message)

    def work(tx: Transaction) -> None:
        now = database.now()
        if verb(tx, id=id, actor=actor, message=message, now=now):
            log_set_aside(tx, [(id, message)], owner, now)

    try:
        database.transact(work)
    except DatabaseUnavailable:
        raise
    except Exception:
        logger.exception("step %d cannot be set aside either; the others continue, and the next round tries again", id)


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
