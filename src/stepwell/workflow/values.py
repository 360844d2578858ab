"""Values of a workflow: JSON paths, and equality of typed JSON."""

from __future__ import annotations

from typing import Any

from stepwell.workflow.template import Condition, Path


def value_at(root: Any, keys: tuple[str, ...]) -> Any:
    """The value at a path; None if there is none.

    >>> value_at({"customer": {"id": 7}, "lines": [{"sku": "a"}]}, ("lines", "0", "sku"))
    'a'
    >>> value_at({"customer": {"id": 7}}, ("customer", "name", "first"))
    """
    found = root
    for key in keys:
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def is_same(one: Any, other: Any) -> bool:
    """Equality of typed JSON: true is not 1, but 1 is 1.0.

    >>> is_same(True, 1), is_same(1, 1.0), is_same([{"a": True}], [{"a": 1}])
    (False, True, False)
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other) and isinstance(one, str) == isinstance(other, str)


def is_met(condition: Condition, found: Any) -> bool:
    """Whether the value that was found is one of the wanted values."""
    return any(is_same(found, wanted) for wanted in condition.values)


def path_of(text: str) -> Path:
    """
    >>> path_of("context.customer.id")
    Path(root='context', keys=('customer', 'id'))
    """
    root, *keys = text.split(".")
    return Path(root, tuple(keys))
