"""The point at which a crash is made: before or after the commit with a given number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from stepwell.store import Database, Transaction

Moment: TypeAlias = Literal["before", "after"]


class Crashed(BaseException):
    """The simulated death of the process. Not an `Exception`, so that code which handles errors does not handle it."""


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Before or after a commit; commits are numbered from 1."""

    moment: Moment
    commit: int

    def __str__(self) -> str:
        return f"{self.moment} commit {self.commit}"


def raise_crashed() -> None:
    raise Crashed


@dataclass(slots=True)
class Commits:
    """Counts the commits of a database and crashes at one of them.

    After the crash every use of the database raises `Crashed`, so nothing that a `finally` does is stored.
    """

    crash_at: CrashPoint | None = None
    crash: Callable[[], None] = raise_crashed
    may_be_killed: bool = False  # the process that makes the commits was started for this
    note: Callable[[int], None] = lambda commits: None  # called with the number of commits that were begun
    count: int = 0
    crashed: bool = False
    changes: list[str] = field(default_factory=list)  # what each commit changed

    def watch(self, database: Database) -> None:
        """Count the commits of this database from now on."""
        database.hooks.after_commit(lambda changes: None)  # so that transactions collect their changes
        database.watch = self

    def __call__(self, moment: Literal["begin", "before", "after"], tx: Transaction | None) -> None:
        if self.crashed:
            raise Crashed
        if tx is not None and moment == "before":
            self.count += 1
            self.changes.append(_described(tx))
        self.note(self.count)
        if self.crash_at is not None and (moment, self.count) == (self.crash_at.moment, self.crash_at.commit):
            self.crashed = True
            self.crash()


def may_kill(database: Database) -> bool:
    """Whether a job that uses this database may kill the process that runs it."""
    return isinstance(database.watch, Commits) and database.watch.may_be_killed


def _described(tx: Transaction) -> str:
    changes = [
        f"step {each.step_id} ({each.action}) {each.from_state or 'new'} to {each.to_state}" for each in tx.changes
    ]
    return ", ".join([*changes[:3], *(["…"] if len(changes) > 3 else [])]) or "no change of state"
