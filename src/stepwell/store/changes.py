"""Hooks for what follows a transition: called inside the transaction, and again after its commit.

Every verb that moves steps reports the rows that it changed, whatever caused the change: a run, a cascade, a tick, an
operator or the reaper. Features attach here instead of repeating what a transition does.
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
    """One change of one step's state, as recorded in its history; `from_state` is None for its creation."""

    step_id: int
    workflow_id: str | None
    action: str
    from_state: State | None
    to_state: State
    reason: str | None = None
    actor: str | None = None
    at: datetime
    attempt: int
    error: str | None = None
    duration: float | None = None


InTransaction: TypeAlias = Callable[["Transaction", Sequence[Change]], None]
AfterCommit: TypeAlias = Callable[[Sequence[Change]], None]


class ChangeHooks:
    """The hooks on the changes of one database."""

    def __init__(self) -> None:
        self._in_transaction: list[InTransaction] = []
        self._after_commit: list[AfterCommit] = []
        self._is_active: list[Callable[[], bool]] = []

    def in_transaction(self, hook: InTransaction) -> None:
        """Call `hook` with all changes, in the transaction that makes them: what it writes commits with the change."""
        self._in_transaction.append(hook)

    def after_commit(self, hook: AfterCommit, is_active: Callable[[], bool] = lambda: True) -> None:
        """Call `hook` with the changes of every committed transaction, while `is_active` returns True."""
        self._after_commit.append(hook)
        self._is_active.append(is_active)

    def has_transaction_hooks(self) -> bool:
        """Whether any hook runs in the transaction of a change, which then takes more than one statement."""
        return bool(self._in_transaction)

    def is_active(self) -> bool:
        """Whether any hook wants changes; hot paths collect none otherwise."""
        return bool(self._in_transaction) or any(is_active() for is_active in self._is_active)

    def changed(self, tx: Transaction, changes: Sequence[Change]) -> None:
        for hook in self._in_transaction:
            hook(tx, changes)

    def committed(self, changes: Sequence[Change]) -> None:
        for hook in self._after_commit:
            hook(changes)
