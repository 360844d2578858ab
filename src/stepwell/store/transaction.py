"""An open transaction: what the verbs of `store.engine` run on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from stepwell.store.changes import Change, ChangeHooks, WorkflowChange

if TYPE_CHECKING:
    from stepwell.model.claimed import ClaimedStep
    from stepwell.store.statement import Statement
    from stepwell.store.wake import Wake


# SQLite stores any bytes as text: what is no UTF-8 is read with this character in its place.
UNREADABLE_TEXT: Final = "\N{REPLACEMENT CHARACTER}"


class Transaction(ABC):
    """One transaction of one database."""

    dialect: str
    has_read_bad_text = False  # whether the latest records contain `UNREADABLE_TEXT`

    def __init__(self, hooks: ChangeHooks) -> None:
        self._hooks = hooks
        self.changes: list[Change] = []  # for the hooks that run after the commit
        self.workflow_changes: list[WorkflowChange] = []
        self.touched: dict[str, str | None] = {}  # declared workflows with changed steps, and who changed them last

    @property
    def collects_changes(self) -> bool:
        """Whether any hook wants the changes of this transaction."""
        return self._hooks.is_active()

    def changed(self, changes: Sequence[Change]) -> None:
        """Call the hooks with these changes: now, before the commit, and again after it."""
        if changes and self.collects_changes:
            self.changes += changes
            self._hooks.changed(self, changes)

    def touch(self, workflow_id: str | None, actor: str | None) -> None:
        """A step of this declared workflow changed: its state is settled at the end of the transaction."""
        if workflow_id is not None:
            self.touched[workflow_id] = actor

    def prepare(self, steps: list[ClaimedStep]) -> list[ClaimedStep]:
        """The claimed steps with what their declared workflows pass to them."""
        return self._hooks.prepare(self, steps)

    @contextmanager
    def undone_if(self, errors: tuple[type[Exception], ...]) -> Iterator[None]:
        """If one of these errors is raised inside, what was written inside is undone, and the transaction can go on."""
        changes, workflow_changes, touched = len(self.changes), len(self.workflow_changes), dict(self.touched)
        self.execute("SAVEPOINT part", {})
        try:
            yield
        except errors:
            self.execute("ROLLBACK TO SAVEPOINT part", {})
            self.execute("RELEASE SAVEPOINT part", {})
            del self.changes[changes:], self.workflow_changes[workflow_changes:]
            self.touched = touched
            raise
        self.execute("RELEASE SAVEPOINT part", {})

    def finalize(self) -> None:
        """Call the hooks that run at the end of a transaction, before its commit."""
        if self.touched:
            self._hooks.finalize(self)

    @abstractmethod
    def query(self, statement: Statement, parameters: dict[str, Any]) -> Any:
        """Every row of the type that the statement's verb declares, or the first one."""

    @abstractmethod
    def records(self, statement: Statement, parameters: dict[str, Any]) -> list[Any]:
        """Rows built from the columns by position."""

    @abstractmethod
    def change(self, statement: Statement, parameters: dict[str, Any]) -> int:
        """How many rows the statement changed."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert many rows in the fastest way that the database has."""

    @abstractmethod
    def timestamp(self, when: datetime) -> str:
        """A time in the form that `insert` takes."""

    @abstractmethod
    def wake(self, wake: Wake) -> None:
        """Send this wake-up when the transaction commits."""

    def wakes_to_send(self, *wakes: Wake) -> list[str]:
        """The same for a statement that can send wake-ups itself; returns those that it has to send."""
        for wake in wakes:
            self.wake(wake)
        return []

    @abstractmethod
    def fetch(self, sql: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows of a SELECT that was built from whitelisted parts, or of a test."""

    @abstractmethod
    def execute(self, sql: str, parameters: dict[str, Any]) -> int:
        """Run a plain statement (for tools and tests); returns how many rows it changed."""
