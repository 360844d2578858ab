"""Sessions of browsers that have signed out, for every process that serves the same browsers."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Final

from stepwell.store import Database, Transaction
from stepwell.store.engine import sessions

# Clocks differ, and a row too many does no harm.
FORGET_AFTER: Final = timedelta(days=1)


def has_ended(database: Database, id: str) -> bool:
    return database.read(lambda tx: sessions.has_ended(tx, id_hash=_hash(id)))


def end_session(database: Database, id: str, *, now: datetime, ends_at: datetime) -> None:
    """End a session before it would end by itself, and forget those that have."""

    def work(tx: Transaction) -> None:
        sessions.forget_ended_sessions(tx, before=now - FORGET_AFTER)
        sessions.end_session(tx, id_hash=_hash(id), ends_at=ends_at)

    database.transact(work)


def _hash(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()
