"""Values in and out of the database: JSON that both databases store identically, or an error that names the path.

SQLite accepts a NUL or a lone surrogate where PostgreSQL does not, and JSON encoders silently turn NaN into null; so
every value is checked first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from stepwell.model import aliases
from stepwell.model.errors import UnstorableValue

MAX_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 64
_BIGGEST_INT: Final = 2**63

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder()


def encode(value: Any, what: str = "arguments") -> str:
    """The JSON text of a value.

    >>> encode({"symbol": "BTC", "n": [1, 2.5, None]})
    '{"symbol":"BTC","n":[1,2.5,null]}'
    >>> encode({"rates": (1.0, float("nan"))})
    Traceback (most recent call last):
    ...
    stepwell.model.errors.UnstorableValue: arguments.rates[1]: nan cannot be represented in JSON
    """
    plain = value if _is_plain(value, 0) else _made_plain(value, what)
    encoded = _encoder.encode(plain)
    if len(encoded) > MAX_BYTES:
        raise UnstorableValue(
            f"{what}: {len(encoded):,} bytes of JSON exceed the limit of {MAX_BYTES:,}: "
            "store it elsewhere and pass a reference"
        )
    return encoded.decode()


def _is_plain(value: Any, depth: int) -> bool:
    """Whether a value is certainly valid as it is: a fast path for nearly all values."""
    kind = type(value)
    if kind is str:
        return _is_plain_text(value)
    if kind is int:
        return bool(-_BIGGEST_INT <= value < _BIGGEST_INT)
    if kind is float:
        return math.isfinite(value)
    if kind is dict and depth < MAX_DEPTH:
        for key, item in value.items():
            if type(key) is not str or not _is_plain_text(key) or not _is_plain(item, depth + 1):
                return False
        return True
    if kind is list and depth < MAX_DEPTH:
        return all(_is_plain(item, depth + 1) for item in value)
    return kind is bool or value is None


def _is_plain_text(text: str) -> bool:
    return text.isascii() and "\0" not in text


def _made_plain(value: Any, what: str) -> Any:
    """The value in JSON's own types; raises UnstorableValue with the path of what is wrong."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_pydantic_or_refuse)
    except RecursionError as error:
        raise UnstorableValue(f"{what}: nested deeper than {MAX_DEPTH} levels, or contains itself") from error
    except (TypeError, ValueError) as error:
        raise UnstorableValue(f"{_blame(value, what)}: {error}") from error
    _walk(plain, what, 0)
    return plain


def _blame(value: Any, path: str) -> str:
    """The path of the innermost part that has no JSON form."""
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        parts = ((f"{path}.{key}", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        parts = ((f"{path}[{position}]", item) for position, item in enumerate(value))
    for where, part in parts:
        try:
            msgspec.to_builtins(part, str_keys=True, enc_hook=_pydantic_or_refuse)
        except (TypeError, ValueError):
            return _blame(part, where)
    return path


def decode(text: str | None) -> Any:
    """The value of a JSON text; None stays None.

    >>> decode('[1, "a"]'), decode(None)
    ([1, 'a'], None)
    """
    if text is None:
        return None
    try:
        return _decoder.decode(text)
    except RecursionError as error:  # written by plain SQL
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from error


def readable(text: str | None) -> Any:
    """For display: the value, or the text itself if it cannot be decoded (written by plain SQL).

    >>> readable('{"n": 1}'), readable('{"n": 1e999}')
    ({'n': 1}, '{"n": 1e999}')
    """
    try:
        return decode(text)
    except ValueError:
        return text


def _pydantic_or_refuse(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return aliases.dump(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def _walk(value: Any, path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise UnstorableValue(f"{path}: nested deeper than {MAX_DEPTH} levels")
    match value:
        case str():
            _check_text(value, path)
        case bool() | None:
            pass
        case int():
            if not -_BIGGEST_INT <= value < _BIGGEST_INT:
                raise UnstorableValue(f"{path}: integer exceeds 64 bits; pass it as a string")
        case float():
            if not math.isfinite(value):
                raise UnstorableValue(f"{path}: {value} cannot be represented in JSON")
        case dict():
            for key, item in value.items():
                _check_text(key, path)
                _walk(item, f"{path}.{key}", depth + 1)
        case list() | tuple():
            for position, item in enumerate(value):
                _walk(item, f"{path}[{position}]", depth + 1)


def _check_text(text: str, path: str) -> None:
    if "\0" in text:
        raise UnstorableValue(f"{path}: contains a NUL character, which PostgreSQL cannot store")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UnstorableValue(f"{path}: contains a lone surrogate, which is not valid text") from error


def clean_text(text: str, limit: int) -> str:
    """Text from outside (an error message) in a form that both databases can store, truncated to `limit` characters.

    >>> clean_text("bad\\0 text", 7)
    'bad\\ufffd te… (2 more characters)'
    """
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    text = text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"
