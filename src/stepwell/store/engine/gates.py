"""Gates: opening, answers, expiry."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.model.states import State
from stepwell.model.step import Json
from stepwell.store.changes import Change
from stepwell.store.statement import change, query, transition_in_tick
from stepwell.store.transaction import Transaction


class DueGate(msgspec.Struct, frozen=True):
    """A gate that has expired, or that plain SQL has answered."""

    id: int
    workflow_id: str
    template: str
    plan: str
    decision: Json
    answer: str | None
    answered_by: str | None
    reason: str | None
    answered_at: datetime | None


class LockedGate(msgspec.Struct, frozen=True):
    id: int
    uuid: str
    label: str | None
    template: str | None
    state: State
    actor: str | None
    completed_at: datetime | None
    kind: str
    plan: str | None
    decision: Json
    workflow_id: str
    status: str | None


class Answer(msgspec.Struct, frozen=True):
    answer: Json
    answered_by: str
    reason: str | None
    answered_at: datetime


@change
def open_gate(tx: Transaction, *, id: int, due_at: datetime | None) -> int: ...


@query
def due_gates(tx: Transaction, *, group: str, now: datetime) -> list[DueGate]: ...


@query
def lock_gate(tx: Transaction, *, id: int) -> LockedGate | None: ...


@query
def answer_of(tx: Transaction, *, id: int) -> Answer | None: ...


@change
def add_answer(
    tx: Transaction, *, id: int, answer: str, answered_by: str, reason: str | None, now: datetime
) -> int: ...


@change
def delete_answer(tx: Transaction, *, id: int) -> int: ...


@change
def postpone_gate(tx: Transaction, *, id: int, due_at: datetime | None) -> int: ...


@change
def record_refusal(tx: Transaction, *, id: int, decision: str) -> int: ...


@transition_in_tick
def expire_gate(tx: Transaction, *, id: int, message: str, actor: str, now: datetime) -> list[Change]: ...
