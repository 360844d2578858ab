"""Counts what goes to a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from stepwell.store import Database, Transaction

# How a transaction tells whether it has written anything yet: a number that moves when it has.
_WRITTEN: Final = {
    "sqlite": "SELECT total_changes() AS written",
    "postgres": "SELECT pg_current_xact_id_if_assigned() AS written",
}


@dataclass(slots=True)
class Counts:
    """Statements (BEGIN and COMMIT aside), transactions, and those of them that wrote."""

    statements: int = 0
    transactions: int = 0
    writing: int = 0


@contextmanager
def counted(database: Database) -> Iterator[Counts]:
    """Counts what the body does on a database."""
    counts, original = Counts(), database.connections.transaction

    @contextmanager
    def counting(write: bool, single: bool = False, read_seconds: float | None = None) -> Iterator[Transaction]:
        with original(write, read_seconds=read_seconds) as tx:
            before = tx.fetch(_WRITTEN[database.dialect], {})
            for method in ("query", "records", "change", "insert"):
                _wrap(tx, method, counts)
            yield tx
            counts.transactions += 1
            counts.writing += tx.fetch(_WRITTEN[database.dialect], {}) != before

    database.connections.transaction = counting  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        del database.connections.transaction  # the class's own is in force again


def _wrap(tx: Transaction, method: str, counts: Counts) -> None:
    original = getattr(tx, method)

    def counting(*arguments: Any, **named: Any) -> Any:
        counts.statements += 1
        return original(*arguments, **named)

    setattr(tx, method, counting)
