"""What the rest of Stepwell sees of a database: transactions.

Two kinds of trouble are handled here and nowhere else. A *conflict* (another writer was in the way: SQLITE_BUSY,
a deadlock, a serialization failure) runs the whole transaction again, quickly and often. An *outage* is raised
as `DatabaseUnavailable`; loops wait and retry, callers learn that nothing is known to have been written.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Final, Self, TypeVar

from stepwell.model.clock import Clock
from stepwell.model.errors import DatabaseBusy, DatabaseUnavailable
from stepwell.store.changes import ChangeHooks
from stepwell.store.conflict import Conflict
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Listener

T = TypeVar("T")

# A conflict lasts as long as the other transaction: milliseconds. 40 tries with up to 50 ms between them
# outlast a burst of 8 writers (measured: at most 6 tries) and still give up within two seconds.
CONFLICT_TRIES: Final = 40
CONFLICT_PAUSE: Final = 0.05
CONFLICT_SECONDS: Final = 15.0  # PostgreSQL takes a second to notice a deadlock; SQLite's own wait comes on top


class Database(ABC):
    """One database, for this process. It connects on first use."""

    dialect: str
    is_shared = True  # whether other processes can open it, too
    max_connections: int | None = None  # to PostgreSQL, if set before it is opened

    def __init__(self, url: str, clock: Clock, prepare: Callable[[Any], None] | None = None) -> None:
        """`prepare` is run once, after the first connection and before anything else: it makes sure of the schema."""
        self.url = url
        self.clock = clock
        self.hooks = ChangeHooks()
        self._prepare = prepare
        self._opening = threading.RLock()
        self._is_open = self._is_preparing = False

    def open(self) -> Self:
        """Connect and make sure of the schema now, and not on first use."""
        if not self._is_open:
            with self._opening:  # other threads wait here; the one that prepares goes on
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
        """Close its connections; the next use would open new ones."""
        with self._opening:
            if self._is_open:
                self._is_open = False
                self._disconnect()

    def now(self) -> datetime:
        """The time that decides: that of the injected clock, or of the database's own machine."""
        return self.clock.now()

    def transact(self, work: Callable[[Transaction], T], *, write: bool = True, single: bool = False) -> T:
        """Run `work` in one transaction of its own, again if it met a conflict.

        `single`: it writes with one statement of ours, which may be repeated where an answer can be lost; so that
        statement can be the transaction, in fewer round trips.
        """
        self.open()
        started = time.monotonic()
        for attempt in range(CONFLICT_TRIES):
            try:
                with self._transaction(write, single) as tx:
                    result = work(tx)
            except Conflict as conflict:
                if attempt + 1 == CONFLICT_TRIES or time.monotonic() - started > CONFLICT_SECONDS:
                    was_dead = isinstance(conflict.__cause__, DatabaseUnavailable)  # one connection after the other
                    raise (DatabaseUnavailable if was_dead else DatabaseBusy)(
                        f"the database stayed busy through {attempt + 1} tries ({conflict}); nothing was written: look "
                        "for a long transaction. If it is your own, pass its `connection=` to enqueue, or commit first"
                    ) from conflict
                # Real time, whatever clock was injected: it is another process that we wait for.
                time.sleep(random.uniform(0, CONFLICT_PAUSE) * min(1.0, (attempt + 1) / 10))
            else:
                if tx.changes:
                    self.hooks.committed(tx.changes)
                return result
        raise AssertionError("unreachable")

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction that only reads."""
        return self.transact(work, write=False)

    @abstractmethod
    def _connect(self) -> None: ...

    @abstractmethod
    def _disconnect(self) -> None: ...

    @abstractmethod
    def _transaction(self, write: bool, single: bool = False) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def within(self, connection: Any) -> Transaction:
        """The caller's own open transaction; it commits or rolls back what is done in it."""

    @abstractmethod
    def listen(self) -> Listener:
        """Be woken by what other transactions commit."""

    @abstractmethod
    def inspecting(self) -> AbstractContextManager[MigrationSession]:
        """A transaction that only reads, for a look at the schema."""

    @abstractmethod
    def migrating(self) -> AbstractContextManager[MigrationSession]:
        """A transaction that keeps every other migrator out."""


class MigrationSession(ABC):
    """What a migration needs beyond ordinary statements."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    @abstractmethod
    def tables(self) -> set[str]:
        """The names of the tables that exist."""

    @abstractmethod
    def run_script(self, script: str) -> None:
        """Many statements, inside the open transaction."""
