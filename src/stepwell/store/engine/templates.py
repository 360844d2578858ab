"""Templates: the versions of workflows that were registered."""

from __future__ import annotations

from datetime import datetime

from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


@change
def record_template(
    tx: Transaction, *, namespace: str, name: str, version: str, content_hash: str, definition: str, now: datetime
) -> int: ...


@change
def replace_template(
    tx: Transaction, *, namespace: str, name: str, version: str, content_hash: str, definition: str, now: datetime
) -> int: ...


@query
def recorded_template(tx: Transaction, *, namespace: str, name: str, version: str) -> str | None:
    """The content hash under which this version was registered."""
    ...
