"""The line numbers of keys in a TOML text, which `tomllib` does not provide.

The text is one that `tomllib` accepts, so only its structure matters here, not whether a value is valid. For a text
that `tomllib` rejects, this returns what was found before the first part that it cannot parse.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

# Keys of tables, indexes in arrays.
Place: TypeAlias = tuple[str | int, ...]

_BLANK: Final = re.compile(r"[ \t]*")
_BLANK_LINES: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY: Final = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_SCALAR: Final = re.compile(
    r""""{3}(?:[^\\]|\\.)*?"{3,5}"""  # up to two quotes may precede the closing ones
    r"""|'{3}.*?'{3,5}"""
    r'''|"(?:[^"\\\n]|\\.)*"'''
    r"""|'[^'\n]*'"""
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+[^\s,\]}#]*"  # a date and a time separated by a space
    r"|[^\s,\[\]{}#]+",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A key that is defined twice."""

    place: Place
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Lines:
    """The line of every key and of every item of an array."""

    lines: Mapping[Place, int]
    duplicates: tuple[Duplicate, ...] = ()

    def of(self, place: Place) -> int | None:
        """The line of a place, or of the nearest enclosing one that is known."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)


def locate(text: str) -> Lines:
    """Find the line of everything in a text.

    >>> locate("[worker]\\nslots = 4\\nqueues = [\\n  'a',\\n]").lines
    {('worker',): 1, ('worker', 'slots'): 2, ('worker', 'queues'): 3, ('worker', 'queues', 0): 4}
    """
    scanner = _Scanner(text)
    with suppress(_Lost, RecursionError):
        scanner.scan()
    return Lines(scanner.lines, tuple(scanner.duplicates))


class _Lost(Exception):
    """The rest of the text is not valid TOML."""


class _Scanner:
    """Scans the text once, from left to right."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self.duplicates: list[Duplicate] = []
        self._text = text
        self._at = 0
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._stated: set[Place] = set()  # the others are only implied, like `a` in [a.b]
        self._items: dict[Place, int] = {}  # of arrays of tables

    def scan(self) -> None:
        table: Place = ()
        self._skip(_BLANK_LINES)
        while self._at < len(self._text):
            if self._take("["):
                table = self._header(is_array=self._take("["))
            else:
                self._pair(table)
            self._skip(_BLANK_LINES)

    def _header(self, *, is_array: bool) -> Place:
        line = self._line()
        *around, last = self._keys()
        table: Place = ()
        for key in around:
            table = (*table, key)
            self._pass(table, line)
            if table in self._items:
                table = (*table, self._items[table] - 1)
        table = (*table, last)
        if is_array:
            self._pass(table, line)
            number = self._items.get(table, 0)
            self._items[table] = number + 1
            table = (*table, number)
        self._state(table, line)
        for _ in range(1 + is_array):
            self._expect("]")
        return table

    def _pair(self, table: Place) -> None:
        line = self._line()
        *around, last = self._keys()
        for key in around:
            table = (*table, key)
            self._pass(table, line)
        table = (*table, last)
        self._state(table, line)
        self._expect("=")
        self._skip(_BLANK)
        self._value(table)

    def _value(self, place: Place) -> None:
        if self._take("["):
            self._array(place)
        elif self._take("{"):
            self._skip(_BLANK_LINES)
            while not self._take("}"):
                self._pair(place)
                self._next("}")
        else:
            self._match(_SCALAR)

    def _array(self, place: Place) -> None:
        number = 0
        self._skip(_BLANK_LINES)
        while not self._take("]"):
            self._state((*place, number), self._line())
            self._value((*place, number))
            self._next("]")
            number += 1

    def _next(self, end: str) -> None:
        """Advance to the next item, or to the end."""
        self._skip(_BLANK_LINES)
        if not self._text.startswith(end, self._at):
            self._expect(",")
            self._skip(_BLANK_LINES)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_BLANK)
            keys.append(_plain(self._match(_KEY)))
            self._skip(_BLANK)
            if not self._take("."):
                return keys

    def _pass(self, place: Place, line: int) -> None:
        self.lines.setdefault(place, line)

    def _state(self, place: Place, line: int) -> None:
        if place in self._stated:
            self.duplicates.append(Duplicate(place, self.lines[place], line))
        else:
            self._stated.add(place)
            self.lines[place] = line

    def _line(self) -> int:
        return bisect_right(self._breaks, self._at) + 1

    def _skip(self, pattern: re.Pattern[str]) -> None:
        self._match(pattern)

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _Lost
        self._at = match.end()
        return match[0]

    def _take(self, sign: str) -> bool:
        is_here = self._text.startswith(sign, self._at)
        self._at += is_here
        return is_here

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise _Lost


def _plain(key: str) -> str:
    """A key without its quotes and escapes."""
    if key[0] not in "\"'":
        return key
    try:
        return str(tomllib.loads(f"key = {key}")["key"])
    except ValueError as error:
        raise _Lost from error
