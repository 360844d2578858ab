"""Requests with an `Idempotency-Key`, and the answers to them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.store.statement import change, query
from stepwell.store.transaction import Transaction


class EarlierRequest(msgspec.Struct, frozen=True):
    fingerprint: str
    status: int
    answer: str


@change
def begin_request(tx: Transaction, *, visitor: str, key: str, fingerprint: str, now: datetime) -> int:
    """0: there is one with this key. Waits for another transaction that has begun one."""
    ...


@query
def request(tx: Transaction, *, visitor: str, key: str) -> EarlierRequest | None: ...


@change
def answer_request(tx: Transaction, *, visitor: str, key: str, status: int, answer: str) -> int: ...


@change
def forget_old_requests(tx: Transaction, *, before: datetime) -> int: ...
