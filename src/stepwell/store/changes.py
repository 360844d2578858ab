"""The seam for what follows a transition: what changed, told inside the transaction and again after its commit.

Every verb that moves steps reports the rows that it changed, whoever moved them: a run, a cascade, a tick, an operator,
the reaper. A feature hooks in here and copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from stepwell.model.states import State

if TYPE_CHECKING:
    from stepwell.store.transaction import Transaction


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one step's state, as its history has it; `from_state` is None for its creation."""

    step_id: int
    workflow_id: str | None
    action: str
    from_state: State | None
    to_state: State
    reason: str | None
    actor: str | None
    at: datetime
    attempt: int
    error: str | None
    duration: float | None = None


InTransaction: TypeAlias = Callable[["Transaction", Sequence[Change]], None]
AfterCommit: TypeAlias = Callable[[Sequence[Change]], None]


class ChangeHooks:
    """The features that follow the changes of one database."""

    def __init__(self) -> None:
        self._in_transaction: list[InTransaction] = []
        self._after_commit: list[AfterCommit] = []
        self._is_active: list[Callable[[], bool]] = []

    def in_transaction(self, hook: InTransaction) -> None:
        """Call this with every change, in the transaction that makes it: what it writes commits with the change."""
        self._in_transaction.append(hook)

    def after_commit(self, hook: AfterCommit, is_active: Callable[[], bool] = lambda: True) -> None:
        """Call this with the changes of every transaction that was committed, while `is_active` says so."""
        self._after_commit.append(hook)
        self._is_active.append(is_active)

    def has_transaction_hooks(self) -> bool:
        """Whether some of them work in the transaction of a change: then it takes more than one statement."""
        return bool(self._in_transaction)

    def is_active(self) -> bool:
        """Whether anybody follows: hot paths gather no changes for nobody."""
        return bool(self._in_transaction) or any(is_active() for is_active in self._is_active)

    def changed(self, tx: Transaction, changes: Sequence[Change]) -> None:
        for hook in self._in_transaction:
            hook(tx, changes)

    def committed(self, changes: Sequence[Change]) -> None:
        for hook in self._after_commit:
            hook(changes)
