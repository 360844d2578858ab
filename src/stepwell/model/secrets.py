"""Secrets in arguments, results, checkpoints, errors and logs: the one rule for what is shown of them.

A value is hidden if the name of its key says that it is a secret. Text is searched for passwords in connection strings
and assignments (`redaction.redacted`). What is stored stays as it is: only what is shown is changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from stepwell.model.errors import StepwellError
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
_ONE_OF_MANY: Final = object()
_DEEPEST: Final = 200  # what the codec stores is nested less deeply


class HiddenValue(StepwellError):
    """Something that was shown without its secrets was sent as if it were the stored value."""


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

    def restored(self, given: Any, stored: Any) -> Any:
        """What a person sends back who was shown the stored value: what was hidden from them is as it was.

        >>> Redaction().restored({"token": "[redacted]", "day": "today"}, {"token": "k-1"})
        {'token': 'k-1', 'day': 'today'}
        """
        if isinstance(given, Mapping) and isinstance(stored, Mapping):
            return {
                key: stored[key]
                if key in stored and item == REDACTED and self.is_secret(str(key))
                else self.restored(item, stored.get(key))
                for key, item in given.items()
            }
        if isinstance(given, list) and isinstance(stored, list | tuple):
            return self._restored_items(given, stored)
        return stored if isinstance(stored, str) and given == redacted(stored) else given

    def _restored_items(self, given: list[Any], stored: Sequence[Any]) -> list[Any]:
        """Elements have no names, and some may have been removed or moved: what is as it was shown is as it was.

        If several were shown alike, it is known which one it is only while there are as many elements as before.

        >>> accounts = [{"user": "ann", "token": "k-1"}, {"user": "bob", "token": "k-2"}]
        >>> Redaction().restored([{"user": "bob", "token": "[redacted]"}], accounts)
        [{'user': 'bob', 'token': 'k-2'}]
        """
        shown = [_canonical(self.value(item)) for item in stored]
        by_look: dict[str, Any] = {}
        for look, item in zip(shown, stored, strict=True):
            by_look[look] = item if by_look.get(look, item) == item else _ONE_OF_MANY
        restored = []
        for place, item in enumerate(given):
            look = _canonical(item)
            is_in_place = len(given) == len(stored) and shown[place] == look
            found = stored[place] if is_in_place else by_look.get(look, item)
            restored.append(item if found is _ONE_OF_MANY else found)
        return restored

    def refuse_hidden(self, value: Any, what: str) -> None:
        """Raise `HiddenValue` if it is a value that was shown, without what was hidden in it."""
        if isinstance(value, Mapping):
            for key, item in value.items():
                if item == REDACTED and self.is_secret(str(key)):
                    raise HiddenValue(
                        f"{what}: {str(key)[:100]!r} has the value {REDACTED!r}, which is shown in place of the stored "
                        "one; send the real value; nothing was written"
                    )
                self.refuse_hidden(item, what)
        elif isinstance(value, list | tuple):
            for item in value:
                self.refuse_hidden(item, what)

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


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
