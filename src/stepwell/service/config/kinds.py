"""A kind of value: parses it from TOML, or from the text of a variable or an option, or says what is valid."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with a value, or with the item of it at the path `at`."""

    value: object
    expected: str
    at: tuple[str | int, ...] = ()


class BadValue(ValueError):
    """An invalid value, with all its flaws."""

    def __init__(self, *flaws: Flaw) -> None:
        super().__init__("; ".join(f"expected {flaw.expected}" for flaw in flaws))
        self.flaws = flaws


class Kind(ABC, Generic[T]):
    """Parses values of one kind; raises `BadValue`, which says what is valid."""

    @abstractmethod
    def read(self, value: object) -> T:
        """Parse a value from TOML."""

    @abstractmethod
    def read_text(self, text: str) -> T:
        """Parse the text of an environment variable or an option."""


def as_toml(value: Any) -> str:
    """A value in TOML syntax.

    >>> as_toml(30.0), as_toml(("a", "b")), as_toml({"alpha": 5}), as_toml(True)
    ('30', '["a", "b"]', '{ alpha = 5 }', 'true')
    """
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value) if abs(value) < 1 << 64 else hex(value)  # Python raises for thousands of digits
        case float():
            return f"{value:g}" if value == float(f"{value:g}") else repr(value)
        case str() | Path():
            return json.dumps(str(value), ensure_ascii=False)
        case list() | tuple():
            return f"[{', '.join(map(as_toml, value))}]"
        case dict():
            items = ", ".join(f"{as_key(key)} = {as_toml(item)}" for key, item in value.items())
            return f"{{ {items} }}" if items else "{}"
    return str(value)


def as_key(key: str) -> str:
    """A key in TOML syntax.

    >>> as_key("slots"), as_key("two words")
    ('slots', '"two words"')
    """
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)
