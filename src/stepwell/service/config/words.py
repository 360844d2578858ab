"""Kinds for text: flags, patterns, choices, paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from stepwell.service.config.kinds import BadValue, Flaw, Kind

T = TypeVar("T")

_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class Flag(Kind[bool]):
    """True or false.

    >>> Flag().read(True), Flag().read_text("off")
    (True, False)
    """

    def read(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise BadValue(Flaw(value, "true or false"))
        return value

    def read_text(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in _TRUE + _FALSE:
            raise BadValue(Flaw(text, "true or false"))
        return word in _TRUE


@dataclass(frozen=True, slots=True)
class Text(Kind[str]):
    """Text that matches a pattern.

    >>> Text("[a-z]+:[a-z]+", "module:variable").read("shop:app")
    'shop:app'
    """

    pattern: str
    expected: str

    def read(self, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            raise BadValue(Flaw(value, self.expected))
        return value

    def read_text(self, text: str) -> str:
        return self.read(text.strip())


@dataclass(frozen=True, slots=True)
class Choice(Kind[T]):
    """One of several words; case is ignored.

    >>> Choice(("info", "error")).read("INFO")
    'info'
    """

    options: tuple[T, ...]

    def read(self, value: object) -> T:
        if isinstance(value, str) and (word := value.strip().lower()) in self.options:
            return self.options[self.options.index(word)]
        raise BadValue(Flaw(value, one_of([f'"{option}"' for option in self.options])))

    def read_text(self, text: str) -> T:
        return self.read(text)


@dataclass(frozen=True, slots=True)
class FilePath(Kind[Path]):
    """The path of a file, which need not exist yet.

    >>> FilePath().read("logs/dispatcher.log").name
    'dispatcher.log'
    """

    def read(self, value: object) -> Path:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise BadValue(Flaw(value, "the path of a file"))
        return Path(value)

    def read_text(self, text: str) -> Path:
        return self.read(text)


def one_of(options: list[str]) -> str:
    """A list of alternatives in words.

    >>> one_of(["red"]), one_of(["red", "green", "blue"])
    ('red', 'red, green or blue')
    """
    return " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))
