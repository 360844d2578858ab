"""The connections of one open database: what the two drivers do differently."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stepwell.model.clock import Clock
from stepwell.model.leases import LEASE_SECONDS
from stepwell.store.changes import ChangeHooks
from stepwell.store.lock_holder import LockHolder
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Listener


@dataclass(frozen=True, slots=True)
class Settings:
    """What a database hands to its connections."""

    url: str
    clock: Clock
    hooks: ChangeHooks
    max_connections: int | None = None
    lease_seconds: Callable[[], float] = lambda: LEASE_SECONDS  # the shortest of this process so far
    idle_seconds: Callable[[], float | None] = lambda: None
    may_wait: Callable[[float, float], bool] = lambda started, seconds: time.monotonic() < started + seconds


class Connections(ABC):
    """From the opening of a database to its closing, in one process."""

    def __init__(self, settings: Settings) -> None:
        self.url = settings.url
        self.clock = settings.clock
        self.hooks = settings.hooks
        self._settings = settings

    def now(self) -> datetime:
        """The time for everything that is stored: from the injected clock, or from the database server."""
        return self.clock.now()

    def exact_now(self, tx: Transaction) -> datetime:
        """The same, read now from the clock that stamps the history."""
        return self.now()

    def data_version(self) -> tuple[int, int] | None:
        """What is equal as long as nothing is committed to the database; None: it cannot be known without a query."""
        return None

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def transaction(
        self, write: bool, single: bool = False, read_seconds: float | None = None
    ) -> AbstractContextManager[Transaction]:
        """One that only reads may have a time limit, which makes `ReadTookTooLong` of what takes longer."""

    @abstractmethod
    def within(self, connection: Any) -> AbstractContextManager[Transaction]:
        """The caller's own open transaction: the caller commits it or rolls it back.

        If the body raises, its own writes are undone, and the caller's transaction is as it was before.
        """

    def let_writers_pass(self) -> None:  # noqa: B027 - PostgreSQL has many writers
        """See `Database.let_writers_pass`."""

    def lock_holder(self) -> LockHolder | None:
        """See `Database.lock_holder`."""
        return None  # PostgreSQL ends a transaction whose client does nothing

    def suspended_writer(self) -> LockHolder | None:
        """See `Database.suspended_writer`."""
        return None

    @abstractmethod
    def listen(self) -> Listener:
        """A listener for wake-ups from commits of other transactions."""

    @abstractmethod
    def inspecting(self) -> AbstractContextManager[MigrationSession]:
        """A read-only transaction, for inspecting the schema."""

    @abstractmethod
    def migrating(self) -> AbstractContextManager[MigrationSession]:
        """A transaction that excludes every other migration."""

    @abstractmethod
    def before_fork(self) -> None: ...

    @abstractmethod
    def after_fork_in_parent(self) -> None: ...

    @abstractmethod
    def after_fork_in_child(self) -> str | None:
        """Abandon what is inherited; returns why the database cannot be opened again in this process, if it cannot."""


class MigrationSession(ABC):
    """What a migration needs beyond ordinary statements."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    @abstractmethod
    def tables(self) -> set[str]:
        """The names of the tables that exist."""

    @abstractmethod
    def run_script(self, script: str) -> None:
        """Run many statements inside the open transaction."""

    def define(self, script: str) -> None:
        """Create triggers and views."""
        self.run_script(script)
