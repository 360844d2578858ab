"""Decisions about ready steps of workflows, before they can be claimed."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.model.step import Json
from stepwell.store.changes import Change
from stepwell.store.statement import change, change_and_wake, query, transition_in_tick
from stepwell.store.transaction import Transaction
from stepwell.store.wake import Wake


class UndecidedStep(msgspec.Struct, frozen=True):
    id: int
    workflow_id: str
    template: str
    kind: str
    plan: str | None
    undecided: str | None
    trigger_rule: str
    decision: Json


@query
def undecided_steps(tx: Transaction, *, group: str, limit: int) -> list[UndecidedStep]: ...


@change
def withdraw_undecided(tx: Transaction, *, group: str) -> int: ...


@transition_in_tick
def skip_undecided(
    tx: Transaction, *, id: int, reason: str, message: str | None, decision: str, actor: str, now: datetime
) -> list[Change]: ...


@change
def record_decision(tx: Transaction, *, id: int, decision: str | None, dispatch_after: datetime | None) -> int: ...


@change_and_wake(Wake.WORK)
def open_decided(tx: Transaction, *, id: int, due_at: datetime | None) -> int: ...
