"""What the rest of Stepwell sees of a database: transactions.

Two kinds of database errors are handled here and nowhere else. After a *conflict* (SQLITE_BUSY, a deadlock, a
serialization failure) the whole transaction is retried, quickly and many times. An *outage* is raised as
`DatabaseUnavailable`: loops wait and retry, and the caller cannot know whether anything was written.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

from stepwell.model.clock import Clock
from stepwell.model.errors import DatabaseBusy, DatabaseUnavailable
from stepwell.store.changes import ChangeHooks
from stepwell.store.conflict import Conflict
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Listener

T = TypeVar("T")

# Called when a transaction begins, and just before and just after the commit of one that may write.
Watch: TypeAlias = Callable[[Literal["begin", "before", "after"], Transaction | None], None]

# A conflict lasts as long as the other transaction: milliseconds. 40 tries with up to 50 ms between them outlast a
# burst of 8 writers (measured: at most 6 tries) and take no more than two seconds.
CONFLICT_TRIES: Final = 40
CONFLICT_PAUSE: Final = 0.05
CONFLICT_SECONDS: Final = 15.0  # PostgreSQL detects a deadlock after one second; SQLite adds its own wait


class Database(ABC):
    """One database, for this process. It connects on first use."""

    dialect: str
    is_shared = True  # whether other processes can open it
    max_connections: int | None = None  # to PostgreSQL, if set before it is opened
    watch: Watch | None = None  # for tests that crash at a commit

    def __init__(self, url: str, clock: Clock, prepare: Callable[[Any], None] | None = None) -> None:
        """`prepare` runs once, after the first connection and before any other use: it checks or creates the schema."""
        self.url = url
        self.clock = clock
        self.hooks = ChangeHooks()
        self._prepare = prepare
        self._opening = threading.RLock()
        self._is_open = self._is_preparing = False

    def open(self) -> Self:
        """Connect and check the schema now instead of on first use."""
        if not self._is_open:
            with self._opening:  # other threads wait here; the preparing thread may re-enter
                self._open_once()
        return self

    def _open_once(self) -> None:
        if self._is_open or self._is_preparing:
            return
        self._connect()
        self._is_preparing = True
        try:
            if self._prepare is not None:
                self._prepare(self)
        except BaseException:
            self._disconnect()
            raise
        finally:
            self._is_preparing = False
        self._is_open = True

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        with self._opening:
            if self._is_open:
                self._is_open = False
                self._disconnect()

    def now(self) -> datetime:
        """The time for everything that is stored: from the injected clock, or from the database server."""
        return self.clock.now()

    def transact(self, work: Callable[[Transaction], T], *, write: bool = True, single: bool = False) -> T:
        """Run `work` in a transaction of its own, and again after a conflict.

        `single`: the work writes with one statement, which is safe to repeat after a lost answer; that statement can
        then be the whole transaction, with fewer round trips.
        """
        self.open()
        started = time.monotonic()
        watch = self.watch
        for attempt in range(CONFLICT_TRIES):
            try:
                if watch is not None:
                    watch("begin", None)
                with self._transaction(write, single and watch is None) as tx:
                    result = work(tx)
                    tx.finalize()
                    if watch is not None and write:
                        watch("before", tx)
            except Conflict as conflict:
                if attempt + 1 == CONFLICT_TRIES or time.monotonic() - started > CONFLICT_SECONDS:
                    was_dead = isinstance(conflict.__cause__, DatabaseUnavailable)  # every connection was dead
                    raise (DatabaseUnavailable if was_dead else DatabaseBusy)(
                        f"the database stayed busy for {attempt + 1} tries ({conflict}); nothing was written. Look for "
                        "a long transaction; if it is your own, pass its `connection=` to enqueue, or commit first"
                    ) from conflict
                # Real time, not the injected clock: another process is in the way.
                time.sleep(random.uniform(0, CONFLICT_PAUSE) * min(1.0, (attempt + 1) / 10))
            else:
                if watch is not None and write:
                    watch("after", tx)
                if tx.changes or tx.workflow_changes:
                    self.hooks.committed(tx.changes, tx.workflow_changes)
                return result
        raise AssertionError("unreachable")

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a read-only transaction."""
        return self.transact(work, write=False)

    @abstractmethod
    def _connect(self) -> None: ...

    @abstractmethod
    def _disconnect(self) -> None: ...

    @abstractmethod
    def _transaction(self, write: bool, single: bool = False) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def within(self, connection: Any) -> Transaction:
        """The caller's own open transaction; the caller commits it or rolls it back."""

    @abstractmethod
    def listen(self) -> Listener:
        """A listener for wake-ups from commits of other transactions."""

    @abstractmethod
    def inspecting(self) -> AbstractContextManager[MigrationSession]:
        """A read-only transaction, for inspecting the schema."""

    @abstractmethod
    def migrating(self) -> AbstractContextManager[MigrationSession]:
        """A transaction that excludes every other migration."""


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
