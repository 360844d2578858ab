"""An open transaction: what the verbs of `store.engine` run on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from stepwell.model.features import WORKFLOW
from stepwell.store.changes import Change, ChangeHooks, Touched, WorkflowChange

if TYPE_CHECKING:
    from stepwell.model.claimed import ClaimedStep
    from stepwell.store.statement import Statement
    from stepwell.store.wake import Wake


# SQLite stores any bytes as text: what is no UTF-8 is read with this character in its place.
UNREADABLE_TEXT: Final = "\N{REPLACEMENT CHARACTER}"
READ_TOOK_TOO_LONG: Final = (
    "the database did not answer within the time limit of a read, so it was given up; nothing was written. Ask for "
    "less (a filter, a smaller page), or look for what keeps the database busy"
)
NO_COLUMNS: Final[Mapping[str, Any]] = MappingProxyType({})


class Followed(Protocol):
    """A row of a step, with the feature that follows its changes."""

    @property
    def workflow_id(self) -> str | None: ...

    @property
    def belongs_to(self) -> str | None: ...


class Transaction(ABC):
    """One transaction of one database."""

    dialect: str
    has_read_bad_text = False  # whether the latest records contain `UNREADABLE_TEXT`

    def __init__(self, hooks: ChangeHooks) -> None:
        self._hooks = hooks
        self.changes: list[Change] = []  # for the hooks that run after the commit
        self.workflow_changes: list[WorkflowChange] = []
        self._touched: dict[str, Touched] = {}  # by feature

    @property
    def collects_changes(self) -> bool:
        """Whether any hook wants the changes of this transaction."""
        return self._hooks.is_active()

    def changed(self, changes: Sequence[Change]) -> None:
        """Call the hooks with these changes: now, before the commit, and again after it."""
        if changes and self.collects_changes:
            self.changes += changes
            self._hooks.changed(self, changes)

    def workflows_changed(self, changes: Sequence[WorkflowChange]) -> None:
        """The same for changes of the states of declared workflows: those hooks run after the commit only."""
        self.workflow_changes += changes
        for change in changes:
            if change.belongs_to is not None:
                self.touch(change.belongs_to, change.workflow_id, change.actor)

    def describe_workflows(self, executions: Mapping[str, Any]) -> None:
        """Add to the changes of these workflows, for the hooks, what their steps are now."""
        self.workflow_changes = [
            msgspec.structs.replace(change, execution=executions[change.workflow_id])
            if change.execution is None and change.workflow_id in executions
            else change
            for change in self.workflow_changes
        ]

    def touch(self, feature: str, which: int | str | None, actor: str | None) -> None:
        """A step or a workflow that belongs to a feature changed: its hook is called at the end of the transaction."""
        if which is not None:
            self._touched.setdefault(feature, {})[which] = actor

    def touch_step(self, step: Followed, step_id: int, actor: str | None) -> None:
        """A step changed: touch what belongs to its feature, the workflow or the step itself."""
        if step.belongs_to is not None:
            self.touch(step.belongs_to, step.workflow_id if step.belongs_to == WORKFLOW else step_id, actor)

    def prepare(self, steps: list[ClaimedStep]) -> list[ClaimedStep]:
        """The claimed steps with what their features pass to them."""
        return self._hooks.prepare(self, steps)

    @contextmanager
    def undone_if(self, errors: tuple[type[Exception], ...]) -> Iterator[None]:
        """If one of these errors is raised inside, what was written inside is undone, and the transaction can go on."""
        changes, workflow_changes = len(self.changes), len(self.workflow_changes)
        touched = {feature: dict(which) for feature, which in self._touched.items()}
        self.execute("SAVEPOINT nested", {})
        try:
            yield
        except errors:
            self.execute("ROLLBACK TO SAVEPOINT nested", {})
            self.execute("RELEASE SAVEPOINT nested", {})
            del self.changes[changes:], self.workflow_changes[workflow_changes:]
            self._touched = touched
            raise
        self.execute("RELEASE SAVEPOINT nested", {})

    def finalize(self) -> None:
        """Call the hooks that run at the end of a transaction, before its commit."""
        while self._touched:  # a hook may touch what belongs to another feature
            feature = next(iter(self._touched))
            self._hooks.finalize(self, feature, self._touched.pop(feature))

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
    def insert(
        self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], same: Mapping[str, Any] = NO_COLUMNS
    ) -> None:
        """Insert many rows in the fastest way that the database has; `same` are columns with one value in all rows."""

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
