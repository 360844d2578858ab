"""What the rest of Stepwell sees of a database: transactions that run named statements.

Two kinds of trouble are handled here and nowhere else. A *conflict* (another writer was in the way: SQLITE_BUSY,
a deadlock, a serialization failure) runs the whole transaction again, quickly and often. An *outage* is raised
as `DatabaseUnavailable`; loops wait and go on, callers learn that nothing is known to have been written.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Final, TypeVar

from stepwell.model.clock import Clock
from stepwell.model.errors import DatabaseBusy, DatabaseUnavailable
from stepwell.store.listener import Listener, Wake
from stepwell.store.statements import statements

T = TypeVar("T")
Row = dict[str, Any]

# A conflict lasts as long as the other transaction: milliseconds. 40 tries with up to 50 ms between them
# outlast a burst of 8 writers (measured: at most 6 tries) and still give up within two seconds.
CONFLICT_TRIES: Final = 40
CONFLICT_PAUSE: Final = 0.05
CONFLICT_SECONDS: Final = 15.0  # PostgreSQL takes a second to notice a deadlock; SQLite's own wait comes on top


class Conflict(Exception):
    """Another transaction was in the way; running this one again is safe and usually succeeds."""


class Transaction(ABC):
    """An open transaction. Statements are called by their names in the `.sql` files."""

    def __init__(self, sql: dict[str, str]) -> None:
        self._sql = sql

    def rows(self, statement: str, **parameters: Any) -> list[Row]:
        """Every row that the statement returns."""
        return self.fetch(self._sql[statement], parameters)

    @abstractmethod
    def records(self, kind: Callable[..., T], statement: str, **parameters: Any) -> list[T]:
        """The same for many rows on the hot path: each is made of the columns in their order, without their names."""

    def row(self, statement: str, **parameters: Any) -> Row | None:
        """The first row, or None."""
        found = self.rows(statement, **parameters)
        return found[0] if found else None

    def value(self, statement: str, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        found = self.row(statement, **parameters)
        return None if found is None else next(iter(found.values()))

    def change(self, statement: str, **parameters: Any) -> int:
        """How many rows the statement changed."""
        return self._change(self._sql[statement], parameters)

    @abstractmethod
    def tell(self, news: Wake) -> None:
        """Let those who listen know when this is committed."""

    def wakes_to_send(self, *news: Wake) -> list[str]:
        """The same for a statement that lets them know itself: what it has to say."""
        for each in news:
            self.tell(each)
        return []

    @abstractmethod
    def array(self, values: Sequence[Any]) -> Any:
        """A list as a parameter, for the statements that take one."""

    @abstractmethod
    def columns(self, ids: Sequence[int], **columns: Sequence[Any]) -> dict[str, Any]:
        """The parameters of a statement that says of each of these steps something of its own."""

    @abstractmethod
    def moment(self, when: datetime) -> str:
        """A moment as `insert` takes it."""

    @abstractmethod
    def numbers(self, statement: str, count: int) -> Sequence[int]:
        """The next so many numbers of a sequence, in ascending order."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Many rows at once, by the database's fastest way."""

    @abstractmethod
    def fetch(self, sql: str, parameters: dict[str, Any]) -> list[Row]:
        """Rows of a statement that was put together from whitelisted parts (`look.filters`)."""

    @abstractmethod
    def _change(self, sql: str, parameters: dict[str, Any]) -> int: ...


class Database(ABC):
    """One database, open for this process."""

    dialect: str
    is_shared = True  # whether other processes can open it, too

    def __init__(self, url: str, clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self.sql = statements(self.dialect)

    def now(self) -> datetime:
        """The time that decides: that of the injected clock, or of the database's own machine."""
        return self.clock.now()

    def transact(self, work: Callable[[Transaction], T], *, write: bool = True, single: bool = False) -> T:
        """Run `work` in one transaction of its own, again if it met a conflict.

        `single`: it writes with one statement of ours, which may be said twice where an answer can be lost; so that can
        be the transaction, in fewer words.
        """
        started = time.monotonic()
        for attempt in range(CONFLICT_TRIES):
            try:
                with self._transaction(write, single) as tx:
                    return work(tx)
            except Conflict as conflict:
                if attempt + 1 == CONFLICT_TRIES or time.monotonic() - started > CONFLICT_SECONDS:
                    was_dead = isinstance(conflict.__cause__, DatabaseUnavailable)  # one connection after the other
                    raise (DatabaseUnavailable if was_dead else DatabaseBusy)(
                        f"the database stayed busy through {attempt + 1} tries ({conflict}); nothing was written: look "
                        "for a long transaction. If it is your own, pass its `connection=` to enqueue, or commit first"
                    ) from conflict
                # Real time, whatever clock was injected: it is another process that we wait for.
                time.sleep(random.uniform(0, CONFLICT_PAUSE) * min(1.0, (attempt + 1) / 10))
        raise AssertionError("unreachable")

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction that only reads."""
        return self.transact(work, write=False)

    @abstractmethod
    def _transaction(self, write: bool, single: bool = False) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def within(self, connection: Any) -> Transaction:
        """The caller's own open transaction; it commits or rolls back what is done in it."""

    @abstractmethod
    def listen(self) -> Listener:
        """Hear what other transactions tell."""

    @abstractmethod
    def migrating(self) -> AbstractContextManager[MigrationSession]:
        """A transaction that keeps every other migrator out."""

    @abstractmethod
    def close(self) -> None: ...


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
