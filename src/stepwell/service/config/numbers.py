"""Kinds for numbers: integers, durations in seconds, sizes in bytes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from stepwell.model.times import seconds_of_text
from stepwell.service.config.kinds import BadValue, Flaw, Kind

_LARGEST_INT: Final = 2**31 - 1  # of a column INTEGER in PostgreSQL
_WHOLE: Final = re.compile(r"[+-]?[0-9][0-9_]*")
_SIZE: Final = re.compile(r"([0-9]{1,20}) ?([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SIZE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class WholeNumber(Kind[int]):
    """A whole number within limits.

    >>> WholeNumber(1).read_text("1_000")
    1000
    """

    least: int = 0
    most: int = _LARGEST_INT

    def read(self, value: object) -> int:
        if type(value) is not int or value < self.least:
            raise BadValue(Flaw(value, f"a whole number of at least {self.least}"))
        if value > self.most:
            raise BadValue(Flaw(value, f"a whole number of at most {self.most}"))
        return value

    def read_text(self, text: str) -> int:
        try:
            number: object = int(text) if _WHOLE.fullmatch(text.strip()) else text
        except ValueError:  # more digits than Python converts, or a misplaced underscore
            number = text
        return self.read(number)


@dataclass(frozen=True, slots=True)
class Seconds(Kind[float]):
    """A time in seconds, as a number or with units.

    >>> Seconds().read(30), Seconds().read("1h30m"), Seconds().read_text("0.5")
    (30.0, 5400.0, 0.5)
    """

    least: float = 0.0
    most: float = 86_400.0 * 366  # a year; more is a mistake, and some platforms cannot wait much longer

    def read(self, value: object) -> float:
        seconds = seconds_of_text(value) if isinstance(value, str) else value
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= self.least:
            raise BadValue(Flaw(value, f'at least {self.least:g} seconds, as a number or like "30s", "5m", "1h30m"'))
        if seconds > self.most:
            raise BadValue(Flaw(value, f"at most {self.most:g} seconds"))
        return float(seconds)

    def read_text(self, text: str) -> float:
        return self.read(text)


@dataclass(frozen=True, slots=True)
class Days(Kind[float]):
    """A number of days, or "forever".

    >>> Days().read(30), Days().read_text("0.5"), Days().read("forever")
    (30.0, 0.5, inf)
    """

    def read(self, value: object) -> float:
        if isinstance(value, str) and value.strip().lower() in ("forever", "for ever"):
            return math.inf
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise BadValue(Flaw(value, 'a number of days, at least 0, or "forever"'))
        return float(value)

    def read_text(self, text: str) -> float:
        try:
            return self.read(float(text))
        except ValueError:
            return self.read(text)


@dataclass(frozen=True, slots=True)
class Size(Kind[int]):
    """A number of bytes; 0 means no limit.

    >>> Size().read("512M"), Size().read(0)
    (536870912, 0)
    """

    least: int = 1 << 20  # `512` is more likely to mean megabytes than bytes

    def read(self, value: object) -> int:
        size = _size_of_text(value) if isinstance(value, str) else value
        if type(size) is not int or not (size == 0 or self.least <= size < 1 << 63):
            raise BadValue(Flaw(value, 'a size of at least 1M, like "512M" or "2G", or 0 for no limit'))
        return size

    def read_text(self, text: str) -> int:
        return self.read(text)


def _size_of_text(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    return int(match[1]) * _SIZE_UNITS[match[2].lower()]
