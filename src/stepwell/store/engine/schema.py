"""The schema itself, the database's clock, notifications."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class AppliedMigration(msgspec.Struct, frozen=True):
    version: int
    checksum: str


@query
def applied_migrations(tx: Transaction) -> list[AppliedMigration]:
    """In order; version 0 is the triggers and views."""
    ...


@query
def recorded_checksum(tx: Transaction, *, version: int) -> str | None: ...


@change
def record_migration(tx: Transaction, *, version: int, name: str, checksum: str) -> int: ...


@query
def database_time(tx: Transaction) -> datetime:
    """The clock of the server (PostgreSQL only)."""
    ...


class Identity(msgspec.Struct, frozen=True):
    """Which Stepwell a connection leads to: a copy of a database has the id of the original, but other numbers."""

    id: str
    database: int
    steps: int


@query
def identity(tx: Transaction) -> Identity | None:
    """PostgreSQL only: on SQLite, the file is the identity."""
    ...


@query
def notify(tx: Transaction, *, wake: str) -> bool:
    """Send a wake-up to every listener on this schema (PostgreSQL only)."""
    ...
