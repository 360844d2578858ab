"""`Idempotency-Key`: a request that is sent twice acts once.

Its key, what it does and the answer to it are one transaction: whatever dies, and whenever, either all of it is stored
or nothing, and then the request can be repeated. A second request with the same key waits for the first one, and gets
its answer. A refusal is an answer as well; an outage is none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from stepwell.model.errors import StepwellError
from stepwell.store import Database, Transaction
from stepwell.store.engine import requests
from stepwell.web.problems import HttpProblem

KEPT: Final = timedelta(days=1)
LONGEST_KEY: Final = 255
_KEY: Final = re.compile(rf"[!-~]{{1,{LONGEST_KEY}}}")


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a text of JSON."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request with a key, which belongs to its visitor."""

    visitor: str
    key: str
    method: str
    address: str  # with its query
    body: bytes

    def fingerprint(self) -> str:
        """What another request with this key must have in common with it."""
        return hashlib.sha256(b"\n".join((self.method.encode(), self.address.encode(), self.body))).hexdigest()


class _NotDone(StepwellError):
    """Undoes what was written before the work ended with this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text)
        self.answer = answer


def once(database: Database, sent: Sent, work: Callable[[], Answer]) -> Answer:
    """Do the work, or return the answer to an earlier request with this key."""
    _forget_old(database, sent)

    def claim_and_work(tx: Transaction) -> Answer:
        if not _claim(tx, database, sent):
            return _earlier(tx, sent)
        try:
            answer = database.transact(lambda _: _done(work()))
        except _NotDone as refused:
            answer = refused.answer
            if answer.status >= 500:
                raise  # undoes the claim
        requests.answer_request(tx, visitor=sent.visitor, key=sent.key, status=answer.status, answer=answer.text)
        return answer

    try:
        return database.together(claim_and_work)
    except _NotDone as failed:
        return failed.answer


def once_in_parts(database: Database, sent: Sent, work: Callable[[], Answer]) -> Answer:
    """The same for work in several transactions that may be done twice: every request gets the answer that is stored.

    Its locks must not be held together. Two requests at a time, or one after a crash, both do the work.
    """
    _forget_old(database, sent)
    earlier = database.read(lambda tx: requests.request(tx, visitor=sent.visitor, key=sent.key))
    if earlier is not None:
        return _replayed(earlier, sent)
    answer = work()
    if answer.status >= 500:
        return answer

    def store(tx: Transaction) -> Answer:
        if not _claim(tx, database, sent):
            return _earlier(tx, sent)
        requests.answer_request(tx, visitor=sent.visitor, key=sent.key, status=answer.status, answer=answer.text)
        return answer

    return database.transact(store)


def _done(answer: Answer) -> Answer:
    if answer.status >= 400:
        raise _NotDone(answer)
    return answer


def _forget_old(database: Database, sent: Sent) -> None:
    if not _KEY.fullmatch(sent.key):
        raise HttpProblem(422, f"Idempotency-Key must be 1 to {LONGEST_KEY} printable ASCII characters without blanks")
    before = database.now() - KEPT
    database.transact(lambda tx: requests.forget_old_requests(tx, before=before))


def _claim(tx: Transaction, database: Database, sent: Sent) -> bool:
    """False if there is a request with this key: it is committed, because this waits for the other transaction."""
    return bool(
        requests.begin_request(
            tx, visitor=sent.visitor, key=sent.key, fingerprint=sent.fingerprint(), now=database.now()
        )
    )


def _earlier(tx: Transaction, sent: Sent) -> Answer:
    found = requests.request(tx, visitor=sent.visitor, key=sent.key)
    assert found is not None
    return _replayed(found, sent)


def _replayed(earlier: requests.EarlierRequest, sent: Sent) -> Answer:
    if earlier.fingerprint != sent.fingerprint():
        raise HttpProblem(
            422,
            "this Idempotency-Key was used for another request; nothing was done",
            "use a new key for a new request",
        )
    return Answer(earlier.status, earlier.answer, {"Idempotency-Replayed": "true"})
