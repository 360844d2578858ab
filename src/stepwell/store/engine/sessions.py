"""Sessions of browsers that have signed out."""

from __future__ import annotations

from datetime import datetime

from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


@change
def end_session(tx: Transaction, *, id_hash: str, ends_at: datetime) -> int: ...


@query
def has_ended(tx: Transaction, *, id_hash: str) -> bool: ...


@change
def forget_ended_sessions(tx: Transaction, *, before: datetime) -> int: ...
