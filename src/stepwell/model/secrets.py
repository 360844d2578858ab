"""Secrets in arguments, results, checkpoints, errors and logs: the one rule for what is shown of them.

A value is hidden if the name of its key says that it is a secret. Text is searched for passwords in connection strings
and assignments (`redaction.redacted`). What is stored stays as it is: only what is shown is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from stepwell.model.redaction import redacted

T = TypeVar("T", str, str | None)

REDACTED: Final = "[redacted]"
# The end of a name, without underscores and case: `api_key`, `apiKey` and `STRIPE_API_KEY` are the same. Names that
# merely contain one are not secret: `max_tokens`, `secretary`.
_ENDINGS: Final = (
    "accesskey", "apikey", "authorization", "cookie", "credential", "credentials", "passphrase", "passwd", "password",
    "passwords", "privatekey", "pwd", "secret", "secretkey", "secrets", "signingkey", "token",
)  # fmt: skip
_BEGINNINGS: Final = ("password", "passwd")
_SEPARATORS: Final = re.compile(r"[^a-z0-9]")
_DEEPEST: Final = 200  # what the codec stores is nested less deeply


class Redaction:
    """Hides secrets; `names` are keys that hold one in addition to the usual ones.

    >>> Redaction(["ssn"]).value({"user": "ann", "apiKey": "k-1", "ssn": "078", "login": {"password": "x"}})
    {'user': 'ann', 'apiKey': '[redacted]', 'ssn': '[redacted]', 'login': {'password': '[redacted]'}}
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = frozenset(map(_squashed, names)) - {""}

    def with_names(self, names: Iterable[str]) -> Redaction:
        """The same with more names."""
        return Redaction([*self.names, *names])

    def is_secret(self, name: str) -> bool:
        """Whether a key of this name holds a secret.

        >>> [Redaction().is_secret(name) for name in ("db_password", "accessToken", "max_tokens", "key")]
        [True, True, False, False]
        """
        squashed = _squashed(name)
        return squashed in self.names or squashed.endswith(_ENDINGS) or squashed.startswith(_BEGINNINGS)

    def value(self, value: Any, depth: int = 0) -> Any:
        """A value of JSON, without its secrets."""
        if depth > _DEEPEST:
            return REDACTED
        match value:
            case str():
                return redacted(value)
            case Mapping():
                return {
                    key: REDACTED if item is not None and self.is_secret(str(key)) else self.value(item, depth + 1)
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.value(item, depth + 1) for item in value]
        return value

    def text(self, text: T) -> T:
        """An error message or a line of a log."""
        return redacted(text) if text else text


def redacted_texts(value: Any) -> Any:
    """Plain values with every text redacted; what a key is called does not matter."""
    match value:
        case str():
            return redacted(value)
        case dict():
            return {key: redacted_texts(item) for key, item in value.items()}
        case list():
            return [redacted_texts(item) for item in value]
    return value


def _squashed(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())
