"""The path of the part of a value that cannot be stored, as one would write it in Python."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from stepwell.model.plain_text import escaped

_LONGEST_KEY: Final = 80


def located(value: Any, path: str, problem: Callable[[Any], str | None]) -> str:
    """The path of the innermost part that has a problem, and the problem.

    >>> located({"rows": [1, None]}, "result", lambda part: "None, or contains it" if "None" in str(part) else None)
    'result["rows"][1]: None, or contains it'
    """
    while True:
        inner = next(((at, part) for at, part in _parts(value) if problem(part) is not None), None)
        if inner is None:
            return f"{path}: {problem(value)}"
        path, value = f"{path}{inner[0]}", inner[1]


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return ((f"[{_key(key)}]", item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ((f"[{position}]", item) for position, item in enumerate(value))
    kind = type(value)
    names: Iterable[str]
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    else:
        names = getattr(kind, "__struct_fields__", ()) or getattr(kind, "model_fields", ())
    return ((f".{name}", getattr(value, name)) for name in names if hasattr(value, name))


def _key(key: Any) -> str:
    text = json.dumps(key, ensure_ascii=False) if isinstance(key, str) else repr(key)
    text = escaped(text)
    return text if len(text) <= _LONGEST_KEY else f"{text[: _LONGEST_KEY - 1]}…"
