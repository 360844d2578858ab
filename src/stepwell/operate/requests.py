"""Requests with a key: one that is sent twice acts once, and the second gets the answer to the first.

Its key, what it does and the answer to it are one transaction: whatever dies, and whenever, either all of it is stored
or nothing, and then the request can be repeated. A second request with the same key waits for the first one. A refusal
is an answer as well; an outage is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from stepwell.model.errors import StepwellError
from stepwell.store import Database, Transaction
from stepwell.store.engine import requests
from stepwell.store.engine.requests import EarlierRequest

KEPT: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Request:
    """The fingerprint is what another request with this key must have in common with it."""

    visitor: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A status of HTTP and a text of JSON."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_refusal(self) -> bool:
        return self.status >= 400

    @property
    def is_outage(self) -> bool:
        return self.status >= 500


class _NotDone(StepwellError):
    """Undoes what was written before the work ended with this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text)
        self.answer = answer


def once(database: Database, request: Request, work: Callable[[], Answer]) -> Answer | EarlierRequest:
    """Do the work, or return the earlier request with this key."""
    _forget_old(database)

    def claim_and_work(tx: Transaction) -> Answer | EarlierRequest:
        if not _claim(tx, database, request):
            return _earlier(tx, request)
        try:
            answer = database.transact(lambda _: _done(work()))
        except _NotDone as refused:
            answer = refused.answer
            if answer.is_outage:
                raise  # undoes the claim
        _store(tx, request, answer)
        return answer

    try:
        return database.together(claim_and_work)
    except _NotDone as failed:
        return failed.answer


def once_in_parts(database: Database, request: Request, work: Callable[[], Answer]) -> Answer | EarlierRequest:
    """The same for work in several transactions that may be done twice: every request gets the answer that is stored.

    Its locks must not be held together. Two requests at a time, or one after a crash, both do the work.
    """
    _forget_old(database)
    earlier = database.read(lambda tx: requests.request(tx, visitor=request.visitor, key=request.key))
    if earlier is not None:
        return earlier
    answer = work()
    if answer.is_outage:
        return answer

    def store(tx: Transaction) -> Answer | EarlierRequest:
        if not _claim(tx, database, request):
            return _earlier(tx, request)
        _store(tx, request, answer)
        return answer

    return database.transact(store)


def _done(answer: Answer) -> Answer:
    if answer.is_refusal:
        raise _NotDone(answer)
    return answer


def _forget_old(database: Database) -> None:
    before = database.now() - KEPT
    database.transact(lambda tx: requests.forget_old_requests(tx, before=before))


def _claim(tx: Transaction, database: Database, request: Request) -> bool:
    """False if there is a request with this key: it is committed, because this waits for the other transaction."""
    return bool(
        requests.begin_request(
            tx, visitor=request.visitor, key=request.key, fingerprint=request.fingerprint, now=database.now()
        )
    )


def _earlier(tx: Transaction, request: Request) -> EarlierRequest:
    found = requests.request(tx, visitor=request.visitor, key=request.key)
    assert found is not None
    return found


def _store(tx: Transaction, request: Request, answer: Answer) -> None:
    requests.answer_request(tx, visitor=request.visitor, key=request.key, status=answer.status, answer=answer.text)
