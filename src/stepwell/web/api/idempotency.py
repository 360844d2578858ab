"""`Idempotency-Key`: a request that is sent twice acts once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stepwell.operate import requests
from stepwell.operate.requests import Answer
from stepwell.store import Database
from stepwell.web.problems import HttpProblem

LONGEST_KEY: Final = 255
_KEY: Final = re.compile(rf"[!-~]{{1,{LONGEST_KEY}}}")


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


def once(database: Database, sent: Sent, work: Callable[[], Answer], *, in_parts: bool = False) -> Answer:
    """Do the work, or return the answer to an earlier request with this key; `in_parts`: in several transactions."""
    if not _KEY.fullmatch(sent.key):
        raise HttpProblem(422, f"Idempotency-Key must be 1 to {LONGEST_KEY} printable ASCII characters without blanks")
    request = requests.Request(sent.visitor, sent.key, sent.fingerprint())
    found = (requests.once_in_parts if in_parts else requests.once)(database, request, work)
    if isinstance(found, Answer):
        return found
    if found.fingerprint != request.fingerprint:
        raise HttpProblem(
            422,
            "this Idempotency-Key was used for another request; nothing was done",
            "use a new key for a new request",
        )
    return Answer(found.status, found.answer, {"Idempotency-Replayed": "true"})
