"""One field of a cron expression: its values, from stars, ranges, lists, steps, names and hashes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stepwell.model.suggest import hint

_ITEM: Final = re.compile(
    r"(?P<base>\*|H(?:\((?P<low>[^()]*)\))?|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>.*))?", re.ASCII
)
_NUMBER: Final = re.compile(r"[0-9]+")


class FieldProblem(Exception):
    """What is wrong with a field; the caller adds which one, and reports those of all fields together."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field that was read: its values, and its text in the plain syntax that cronsim reads."""

    values: tuple[int, ...]
    plain: str
    repeats: bool


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field may contain."""

    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()
    largest: int | None = None  # a second name of the first value: day 7 of the week is Sunday, as day 0 is
    hashed: int | None = None  # the largest value that H takes, where months differ in length

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def read(self, text: str, seed: str) -> Field:
        """Read the text of a field, in upper case.

        >>> HOUR.read("22-2", "").values, WEEKDAY.read("FRI-MON", "").values, MINUTE.read("*/20", "").values
        ((0, 1, 2, 22, 23), (0, 1, 5, 6), (0, 20, 40))
        """
        items = [self._item(item, seed) for item in text.split(",")]
        values = tuple(sorted({value for item in items for value in item.values}))
        # What fires at every value goes on like a star, however it is written.
        repeats = items[0].repeats or len(values) == self.size
        return Field(values, ",".join(item.plain for item in items), repeats)

    def _item(self, item: str, seed: str) -> Field:
        if not item:
            raise FieldProblem("a list has an empty item")
        if item == "?" and self in (DAY, WEEKDAY):
            return Field(tuple(range(self.first, self.last + 1)), "*", repeats=True)
        if (special := self._special(item)) is not None:
            return Field((), special, repeats=False)
        match = _ITEM.fullmatch(item)
        if match is None:
            raise FieldProblem(f"cannot read {item!r}; {self._valid()}")
        step = self._step(match["step"])
        hashed = match["base"].startswith("H")
        values = self._base(match, seed, step) if hashed else self._base(match, seed, None)[:: step or 1]
        star = match["base"] == "*"
        return Field(
            values=tuple(values),
            # cronsim joins the two fields of the day by AND if one begins with a star, as Debian's cron does.
            plain=item if star else ",".join(map(str, values)),
            repeats=star or (match["base"] == "H" and step is not None),
        )

    def _base(self, match: re.Match[str], seed: str, step: int | None) -> Sequence[int]:
        """The values of an item in their order, before its step; of `H` the chosen one, or every `step`th."""
        if match["base"] == "*":
            return range(self.first, self.last + 1)
        if match["base"].startswith("H"):
            return self._hashed(match["low"], seed, step)
        first = self._value(match["first"])
        if match["last"] is not None:
            return self._range(first, self._value(match["last"]))
        return [self._wrap(first)] if match["step"] is None else range(self._wrap(first), self.last + 1)

    def _range(self, first: int, last: int) -> list[int]:
        if last < first:
            last += self.size
        return [self._wrap(value) for value in range(first, last + 1)]

    def _wrap(self, value: int) -> int:
        return (value - self.first) % self.size + self.first

    def _hashed(self, bounds: str | None, seed: str, step: int | None) -> Sequence[int]:
        if bounds is None:
            values = list(range(self.first, (self.hashed or self.last) + 1))
        else:
            low, dash, high = bounds.partition("-")
            if not dash:
                raise FieldProblem(f"H({bounds}) needs a range, as in H({self.first}-{self.last})")
            values = self._range(self._value(low), self._value(high))
        number = int.from_bytes(hashlib.sha256(f"{seed}\n{self.name}".encode()).digest()[:8])
        if step is None:
            return [values[number % len(values)]]
        return values[number % min(step, len(values)) :: step]

    def _step(self, text: str | None) -> int | None:
        if text is None:
            return None
        if not _NUMBER.fullmatch(text):
            raise FieldProblem(f"the step {text!r} is not a number")
        step = int(text)
        if step == 0:
            raise FieldProblem("a step of 0 never advances; use 1 or more")
        if step > self.size:
            raise FieldProblem(f"a step of {step} is larger than the {self.size} values of this field")
        return step

    def _value(self, text: str) -> int:
        if text in self.names:
            return self.names.index(text) + self.first
        if not _NUMBER.fullmatch(text):
            if self.names:
                raise FieldProblem(f"unknown name {text!r}; {hint(text, self.names, 'names')}")
            raise FieldProblem(f"{text!r} is not a number; {self._valid()}")
        value = int(text)
        if not self.first <= value <= (self.largest or self.last):
            raise FieldProblem(f"{value} is out of range; {self._valid()}")
        return value

    def _special(self, item: str) -> str | None:
        """`L`, `LW`, `5L` and `MON#2`, as cronsim writes them; None if it is none of these."""
        if self == DAY and item in ("L", "LW"):
            return item
        if self == DAY and re.fullmatch(r"L-[0-9]+|[0-9]+W", item):
            raise FieldProblem(f"{item} is not supported; L (last day) and LW (last weekday) are")
        if "#" in item:
            if self != WEEKDAY:
                raise FieldProblem("# belongs in the day of week, as in MON#2 (the second Monday)")
            day, _, nth = item.partition("#")
            if nth not in {"1", "2", "3", "4", "5"}:
                raise FieldProblem(f"{item} names no day of a month; use #1 to #5")
            return f"{self._wrap(self._value(day))}#{nth}"
        if self == WEEKDAY and item == "L":
            raise FieldProblem("L needs a day here, as in 5L or FRIL (the last Friday of the month)")
        if self == WEEKDAY and item.endswith("L"):
            return f"{self._wrap(self._value(item[:-1]))}L"
        return None

    def _valid(self) -> str:
        names = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"valid values: {self.first} to {self.largest or self.last}{names}"


MINUTE: Final = Kind("minute", 0, 59)
HOUR: Final = Kind("hour", 0, 23)
DAY: Final = Kind("day of month", 1, 31, hashed=28)
MONTH: Final = Kind(
    "month", 1, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
)
WEEKDAY: Final = Kind("day of week", 0, 6, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), largest=7)

KINDS: Final = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
