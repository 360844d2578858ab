"""`Idempotency-Key`: a request that is sent twice acts once.

The key is a row, written before the action; the answer is added to it afterwards. A second request with the same key
gets that answer. An outage leaves no row, so that the request can be repeated. A process that dies in between leaves a
row without an answer: then it is not known whether the action took place, and a repeated request says so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from stepwell.store import Transaction
from stepwell.store.engine import requests
from stepwell.web.api.endpoint import Call
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


def once(call: Call, key: str, method: str, path: str, body: bytes, work: Callable[[], Answer]) -> Answer:
    """Do the work, or return the answer of an earlier request with this key."""
    if not _KEY.fullmatch(key):
        raise HttpProblem(422, f"Idempotency-Key must be 1 to {LONGEST_KEY} printable ASCII characters without blanks")
    database, visitor = call.app.database, call.visitor.name
    fingerprint = hashlib.sha256(b"\n".join((method.encode(), path.encode(), body))).hexdigest()
    now = database.now()

    def begin(tx: Transaction) -> requests.EarlierRequest | None:
        requests.forget_old_requests(tx, before=now - KEPT)
        if requests.begin_request(tx, visitor=visitor, key=key, fingerprint=fingerprint, now=now):
            return None
        return requests.request(tx, visitor=visitor, key=key)

    earlier = database.transact(begin)
    if earlier is not None:
        return _repeated(earlier, fingerprint)
    try:
        answer = work()
    except BaseException:
        database.transact(lambda tx: requests.forget_request(tx, visitor=visitor, key=key))
        raise
    if answer.status >= 500:
        database.transact(lambda tx: requests.forget_request(tx, visitor=visitor, key=key))
    else:
        database.transact(
            lambda tx: requests.answer_request(tx, visitor=visitor, key=key, status=answer.status, answer=answer.text)
        )
    return answer


def _repeated(earlier: requests.EarlierRequest, fingerprint: str) -> Answer:
    if earlier.fingerprint != fingerprint:
        raise HttpProblem(
            422,
            "this Idempotency-Key was used for another request; nothing was done",
            "use a new key for a new request",
        )
    if earlier.status is None or earlier.answer is None:
        raise HttpProblem(
            409,
            f"the first request with this Idempotency-Key, of {earlier.created_at.isoformat()}, has no answer yet",
            "wait and repeat it; if it never gets one, its server died: check whether it took effect",
            {"Retry-After": "1"},
        )
    return Answer(earlier.status, earlier.answer, {"Idempotency-Replayed": "true"})
