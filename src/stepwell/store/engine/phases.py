"""The state phases of a tick: one guarded, set-based statement each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stepwell.store.changes import Change
from stepwell.store.statement import query, transition_in_tick
from stepwell.store.transaction import Transaction


@transition_in_tick
def skip_children(tx: Transaction, *, group: str, actor: str, now: datetime) -> list[Change]: ...


@transition_in_tick
def cancel_children(tx: Transaction, *, group: str, actor: str, now: datetime) -> list[Change]: ...


@transition_in_tick
def promote_handlers(tx: Transaction, *, group: str, actor: str, now: datetime) -> list[Change]:
    """Make dormant handlers of a failed block Pending, with their descendants."""
    ...


@transition_in_tick
def promote_successors(tx: Transaction, *, ids: Sequence[int], actor: str, now: datetime) -> list[Change]:
    """Make the steps Pending that could not run because these could not."""
    ...


@query
def parents_to_decide(tx: Transaction, *, group: str) -> list[int]:
    """Parents of marked steps (or marked themselves) whose children have all ended; locked."""
    ...


@transition_in_tick
def fail_parents(tx: Transaction, *, ids: Sequence[int], actor: str, now: datetime) -> list[Change]: ...


@transition_in_tick
def complete_parents(tx: Transaction, *, ids: Sequence[int], actor: str, now: datetime) -> list[Change]: ...


@transition_in_tick
def fail_children(tx: Transaction, *, group: str, actor: str, now: datetime) -> list[Change]: ...


@transition_in_tick
def mark_not_runnable_in_block(tx: Transaction, *, group: str, actor: str, now: datetime) -> list[Change]: ...


@transition_in_tick
def mark_not_runnable_dependents(tx: Transaction, *, group: str, actor: str, now: datetime) -> list[Change]: ...


@transition_in_tick
def mark_not_runnable_descendants(tx: Transaction, *, group: str, actor: str, now: datetime) -> list[Change]: ...


@transition_in_tick
def fail_exhausted(tx: Transaction, *, group: str, actor: str, now: datetime) -> list[Change]: ...
