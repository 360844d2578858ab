"""Comparing stored values with expected ones, of which only a part may be given."""

from __future__ import annotations

from enum import Enum
from typing import Any

from stepwell.model import codec


def matches(expected: Any, stored: Any) -> bool:
    """Whether a stored value is the expected one; a dict matches one with more keys.

    Expected values may be objects that JSON encodes (a dataclass, a Decimal), or compare themselves
    (`unittest.mock.ANY`, `pytest.approx`).

    >>> matches({"order": {"id": 7}}, {"order": {"id": 7, "lines": []}, "gift": False})
    True
    >>> matches({"order": {"id": 8}}, {"order": {"id": 7, "lines": []}})
    False
    """
    if isinstance(expected, dict) and isinstance(stored, dict):
        return all(key in stored and matches(value, stored[key]) for key, value in expected.items())
    if isinstance(expected, list | tuple) and isinstance(stored, list):
        return len(expected) == len(stored) and all(map(matches, expected, stored))
    if isinstance(expected, bool) is not isinstance(stored, bool) and isinstance(expected, bool | int | float):
        return False
    return bool(expected == stored) or _as_stored(expected) == stored


def _as_stored(value: Any) -> Any:
    try:
        return codec.decode(codec.encode(value))
    except Exception:  # an object that only compares itself: not equal, then
        return value


def shown(value: Any) -> str:
    return repr(str(value)) if isinstance(value, Enum) else repr(value)
