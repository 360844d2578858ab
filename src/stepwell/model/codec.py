"""Values in and out of the database: JSON that both databases store identically, or an error that names the path.

SQLite accepts a NUL or a lone surrogate where PostgreSQL does not, and JSON encoders silently turn NaN into null; so
every value is checked first.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from stepwell.model import aliases, unstorable
from stepwell.model.errors import UnstorableValue

MAX_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 64
_BIGGEST_INT: Final = 2**63
_TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder()


def encode(value: Any, what: str = "arguments") -> str:
    """The JSON text of a value.

    >>> encode({"symbol": "BTC", "n": [1, 2.5, None]})
    '{"symbol":"BTC","n":[1,2.5,null]}'
    >>> encode({"rates": (1.0, float("nan"))})
    Traceback (most recent call last):
    ...
    stepwell.model.errors.UnstorableValue: arguments["rates"][1]: NaN cannot be stored
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
        plain = _builtins(value)
    except RecursionError as error:
        raise UnstorableValue(f"{what}: nested deeper than {MAX_DEPTH} levels, or contains itself") from error
    except (TypeError, ValueError) as error:
        raise UnstorableValue(unstorable.located(value, what, _problem)) from error
    if (problem := _problem_of_plain(plain)) is not None:
        raise UnstorableValue(
            f"{what}: {problem}" if problem == _TOO_DEEP else unstorable.located(value, what, _problem)
        )
    return plain


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_pydantic_or_refuse)


def _problem(value: Any) -> str | None:
    """Why a value cannot be stored; None if it can."""
    try:
        return _problem_of_plain(_builtins(value))
    except (TypeError, ValueError) as error:
        return str(error)


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


def _problem_of_plain(value: Any, depth: int = 0) -> str | None:
    if depth > MAX_DEPTH:
        return _TOO_DEEP
    match value:
        case str():
            return _problem_of_text(value)
        case bool() | None:
            return None
        case int():
            in_range = -_BIGGEST_INT <= value < _BIGGEST_INT
            return None if in_range else "integer exceeds 64 bits; pass it as a string"
        case float():
            return None if math.isfinite(value) else f"{_NOT_FINITE[repr(value)]} cannot be stored"
        case dict():
            problems = (_problem_of_text(key) or _problem_of_plain(item, depth + 1) for key, item in value.items())
        case _:
            problems = (_problem_of_plain(item, depth + 1) for item in value)
    return next(filter(None, problems), None)


def _problem_of_text(text: str) -> str | None:
    if "\0" in text:
        return "contains a NUL character, which PostgreSQL cannot store"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "contains a lone surrogate, which is not valid text"
    return None


def clean_text(text: str, limit: int) -> str:
    """Text from outside (an error message) in a form that both databases can store, truncated to `limit` characters.

    >>> clean_text("bad\\0 text", 7)
    'bad\\ufffd te… (2 more characters)'
    """
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    text = text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"
