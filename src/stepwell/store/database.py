"""What the rest of Stepwell sees of a database: transactions.

Two kinds of database errors are handled here and nowhere else. After a *conflict* (SQLITE_BUSY, a deadlock, a
serialization failure) the whole transaction is retried, quickly and many times. An *outage* is raised as
`DatabaseUnavailable`: loops wait and retry, and the caller cannot know whether anything was written.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

from stepwell.model.clock import Clock
from stepwell.model.errors import DatabaseBusy, DatabaseUnavailable
from stepwell.model.leases import LEASE_SECONDS
from stepwell.store.bounded import ReadLimit
from stepwell.store.changes import ChangeHooks
from stepwell.store.conflict import Conflict, Suspended
from stepwell.store.connections import Connections, MigrationSession, Settings
from stepwell.store.forks import survive_forks
from stepwell.store.lock_holder import LockHolder
from stepwell.store.macros import SQLITE
from stepwell.store.opening import Opening
from stepwell.store.together import Together
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
_OWN: Final = "if it is your own, pass its `connection=` to enqueue, or commit first"


class Database:
    """One database, for this process and those that it forks. It connects on first use.

    `connect` loads the driver and opens the connections. `prepare` runs once after it, before any other use: it checks
    or creates the schema.
    """

    max_connections: int | None = None  # to PostgreSQL, if set before it is opened
    # PostgreSQL ends a transaction that is idle for a third of the shortest lease of this process, or for this time.
    lease_seconds = LEASE_SECONDS
    idle_seconds: float | None = None
    watch: Watch | None = None  # for tests that crash at a commit

    def __init__(
        self,
        url: str,
        dialect: str,
        clock: Clock,
        connect: Callable[[Settings], Connections],
        prepare: Callable[[Any], None] | None = None,
        *,
        is_shared: bool = True,
    ) -> None:
        self.url = url
        self.dialect = dialect
        self.clock = clock
        self.is_shared = is_shared  # whether other processes can open it
        self.hooks = ChangeHooks()
        self._opening = Opening(
            lambda: connect(self._settings()), (lambda: prepare(self)) if prepare is not None else lambda: None
        )
        self._waits_until = math.inf
        self._together = Together()
        self._limit = ReadLimit()
        survive_forks(self)

    @property
    def connections(self) -> Connections:
        """The open connections; opens them first if need be."""
        return self._opening.connections()

    def open(self) -> Self:
        """Connect and check the schema now instead of on first use; the only way to use it again after `close`."""
        self._opening.reopen()
        return self

    def _settings(self) -> Settings:
        return Settings(
            self.url,
            self.clock,
            self.hooks,
            self.max_connections,
            lambda: self.lease_seconds,
            lambda: self.idle_seconds,
            self._may_wait,
        )

    def close(self) -> None:
        """Close all connections. Until it is opened again with `open`, every use is an error."""
        self._opening.close()

    def use_lease(self, seconds: float) -> None:
        """A part of this process has such a lease: a transaction must not hold locks for longer."""
        self.lease_seconds = min(self.lease_seconds, seconds)

    def now(self) -> datetime:
        """The time for everything that is stored: from the injected clock, or from the database server."""
        return self.connections.now()

    @property
    def has_one_writer(self) -> bool:
        """Whether only one can write at a time: then rows become visible in the order of their ids."""
        return self.dialect == SQLITE

    def data_version(self) -> tuple[int, int] | None:
        """What is equal as long as nothing is committed to the database; None: it cannot be known without a query."""
        return self.connections.data_version()

    def exact_now(self, tx: Transaction) -> datetime:
        """The same, read now from the clock that stamps the history: `now` may be some milliseconds behind it."""
        return self.connections.exact_now(tx)

    def limit_waiting(self, until: float = math.inf) -> None:
        """From this time (of `time.monotonic`) on, do not wait for other writers: a transaction is tried once.

        For a process that must end, and whose writes another program blocks. Safe in signal handlers and in any thread;
        it also ends the waits that are under way.
        """
        self._waits_until = until

    def _may_wait(self, started: float, seconds: float) -> bool:
        """Whether a transaction that has waited since `started`, for at most `seconds`, may wait longer."""
        return time.monotonic() < min(started + seconds, self._waits_until)

    def transact(
        self,
        work: Callable[[Transaction], T],
        *,
        write: bool = True,
        single: bool = False,
        repeatable: bool = False,
    ) -> T:
        """Run `work` in a transaction of its own, and again after a conflict.

        `single`: the work writes with one statement; that statement can then be the whole transaction, with fewer
        round trips. `repeatable`: it is repeated once also if the connection was lost, perhaps after its commit.
        """
        if (whole := self._together.tx) is not None:
            return self._together.nested(whole, work, write=write)
        connections = self.connections
        started = time.monotonic()
        watch = self.watch
        limit = None if write else self._limit.seconds
        for attempt in range(CONFLICT_TRIES):
            try:
                if watch is not None:
                    watch("begin", None)
                with connections.transaction(write, single and watch is None, limit) as tx:
                    result = work(tx)
                    tx.finalize()
                    if watch is not None and write:
                        watch("before", tx)
            except DatabaseUnavailable:
                if not repeatable:
                    raise
                repeatable = False
            except Conflict as conflict:
                if isinstance(conflict, Suspended):
                    started = time.monotonic()  # the time before that was not spent waiting for others
                if attempt + 1 == CONFLICT_TRIES or not self._may_wait(started, CONFLICT_SECONDS):
                    was_dead = isinstance(conflict.__cause__, DatabaseUnavailable)  # every connection was dead
                    raise (DatabaseUnavailable if was_dead else DatabaseBusy)(
                        f"the database stayed busy for {attempt + 1} tries ({conflict}); nothing was written. "
                        f"{_what_to_do(connections.lock_holder())}"
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

    def together(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in one transaction: each that it begins here, in this thread, is nested in it.

        So what several calls write is committed at once or not at all. After a conflict, all of `work` is repeated.
        """
        if self._together.tx is not None:
            return self.transact(work)

        def inside(tx: Transaction) -> T:
            with self._together.inside(tx):
                return work(tx)

        result = self.transact(inside)
        for call in self._together.afterwards:
            call()
        return result

    def after_commit(self, call: Callable[[], object]) -> None:
        """Call it when what this thread has written here is committed: now, unless it is inside of `together`."""
        if self._together.tx is None:
            call()
        else:
            self._together.afterwards.append(call)

    def lock_holder(self) -> LockHolder | None:
        """The process that keeps all others from writing at this moment, where there can be such a process."""
        return self.connections.lock_holder()

    def suspended_writer(self) -> LockHolder | None:
        """That process if it is suspended: until it continues or ends, nothing can be written."""
        return self.connections.suspended_writer()

    def let_writers_pass(self) -> None:
        """Where only one can write at a time: return when those that wait for their turn now have had it."""
        if self._together.tx is None:
            self.connections.let_writers_pass()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a read-only transaction."""
        return self.transact(work, write=False)

    def bounded(self, seconds: float) -> AbstractContextManager[None]:
        """What this thread reads here inside the block may take this long; then `ReadTookTooLong` is raised.

        The limit is that of each statement. On SQLite a file is read on connections of their own: a long read does not
        hold up that of a worker beside it.
        """
        return self._limit.of(seconds)

    def within(self, connection: Any) -> AbstractContextManager[Transaction]:
        """The caller's own open transaction: see `Connections.within`."""
        try:
            connections = self.connections
        except DatabaseUnavailable as error:
            raise DatabaseBusy(
                f"{error}. If your own transaction blocks the creation of the schema, call `app.open()` before it"
            ) from error
        return connections.within(connection)

    def listen(self) -> Listener:
        """A listener for wake-ups from commits of other transactions."""
        return self.connections.listen()

    def inspecting(self) -> AbstractContextManager[MigrationSession]:
        """A read-only transaction, for inspecting the schema."""
        return self.connections.inspecting()

    def migrating(self) -> AbstractContextManager[MigrationSession]:
        """A transaction that excludes every other migration."""
        return self.connections.migrating()

    # forks ----------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        self._opening.before_fork()

    def after_fork_in_parent(self) -> None:
        self._opening.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        self._together, self._limit = Together(), ReadLimit()
        self._opening.after_fork_in_child()


def _what_to_do(holder: LockHolder | None) -> str:
    if holder is None:
        return f"Look for a long transaction; {_OWN}"
    found = str(holder)
    return f"{found[0].upper()}{found[1:]}" + ("" if holder.is_stopped else f"; {_OWN}")
