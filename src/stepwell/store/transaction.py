"""An open transaction: what the verbs of `store.engine` run on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stepwell.store.changes import Change, ChangeHooks

if TYPE_CHECKING:
    from stepwell.store.statement import Statement
    from stepwell.store.wake import Wake


class Transaction(ABC):
    """One transaction of one database."""

    dialect: str

    def __init__(self, hooks: ChangeHooks) -> None:
        self._hooks = hooks
        self.changes: list[Change] = []  # for those who follow after the commit

    @property
    def collects_changes(self) -> bool:
        """Whether anybody wants to know what changes."""
        return self._hooks.is_active()

    def changed(self, changes: Sequence[Change]) -> None:
        """Tell whoever follows the changes of steps; in here, before the commit, and again after it."""
        if changes and self.collects_changes:
            self.changes += changes
            self._hooks.changed(self, changes)

    @abstractmethod
    def query(self, statement: Statement, parameters: dict[str, Any]) -> Any:
        """Every row of the type that the statement's verb declares, or the first one."""

    @abstractmethod
    def records(self, statement: Statement, parameters: dict[str, Any]) -> list[Any]:
        """Rows built of the columns in their order."""

    @abstractmethod
    def change(self, statement: Statement, parameters: dict[str, Any]) -> int:
        """How many rows the statement changed."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Many rows at once, by the database's fastest way."""

    @abstractmethod
    def moment(self, when: datetime) -> str:
        """A moment as `insert` takes it."""

    @abstractmethod
    def wake(self, wake: Wake) -> None:
        """Wake those who wait for this, when the transaction commits."""

    def wakes_to_send(self, *wakes: Wake) -> list[str]:
        """The same for a statement that sends wake-ups itself: which ones it has to send."""
        for wake in wakes:
            self.wake(wake)
        return []

    @abstractmethod
    def fetch(self, sql: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows of a SELECT that was put together from whitelisted parts, or of a test."""

    @abstractmethod
    def execute(self, sql: str, parameters: dict[str, Any]) -> int:
        """How many rows a plain statement changed (for tools and tests)."""
