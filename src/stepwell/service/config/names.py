"""Kinds for lists of names, and for values by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from stepwell.service.config.kinds import BadValue, Flaw, Kind

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Names(Kind[tuple[str, ...]]):
    """An ordered list of distinct names.

    >>> Names().read(["priority", "default"]), Names().read_text("priority, default")
    (('priority', 'default'), ('priority', 'default'))
    """

    def read(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise BadValue(Flaw(value, 'a list of names, like ["one", "two"]'))
        flaws = [Flaw(name, reason, (place,)) for place, name in enumerate(value) if (reason := _flaw_of_name(name))]
        flaws += [
            Flaw(name, "distinct names", (place,))
            for place, name in enumerate(value)
            if isinstance(name, str) and name in value[:place]
        ]
        if flaws:
            raise BadValue(*flaws)
        return tuple(value)

    def read_text(self, text: str) -> tuple[str, ...]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        if not names:
            raise BadValue(Flaw(text, "names separated by commas, like one,two"))
        try:
            return self.read(names)
        except BadValue as error:
            raise BadValue(*(Flaw(text, flaw.expected) for flaw in error.flaws)) from None


def _flaw_of_name(name: object) -> str | None:
    if not isinstance(name, str) or not name or name != name.strip() or not name.isprintable():
        return "a name"
    # Lists in variables and options are separated by commas.
    return "a name without a comma" if "," in name else None


@dataclass(frozen=True, slots=True)
class PerName(Kind[Mapping[str, T]]):
    """Values by name.

    >>> from stepwell.service.config.numbers import WholeNumber
    >>> PerName(WholeNumber(1)).read_text("alpha=100, beta=50")
    {'alpha': 100, 'beta': 50}
    """

    kind: Kind[T]

    def read(self, value: object) -> Mapping[str, T]:
        if not isinstance(value, dict):
            raise BadValue(Flaw(value, "a table of names and values"))
        read: dict[str, T] = {}
        flaws: list[Flaw] = []
        for name, item in value.items():
            if reason := _flaw_of_name(name):
                flaws.append(Flaw(item, f"{reason} before the =", (name,)))
            try:
                read[name] = self.kind.read(item)
            except BadValue as error:
                flaws += [Flaw(flaw.value, flaw.expected, (name, *flaw.at)) for flaw in error.flaws]
        if flaws:
            raise BadValue(*flaws)
        return read

    def read_text(self, text: str) -> Mapping[str, T]:
        read: dict[str, T] = {}
        flaws: list[Flaw] = []
        for pair in filter(None, (pair.strip() for pair in text.split(","))):
            name, equals, item = (part.strip() for part in pair.partition("="))
            if not equals or not name or name in read:
                flaws.append(Flaw(text, "distinct names with their values, like alpha=100,beta=50"))
                continue
            try:
                read[name] = self.kind.read_text(item)
            except BadValue as error:
                flaws += [Flaw(item, flaw.expected, (name,)) for flaw in error.flaws]
        if flaws or not read:
            raise BadValue(*flaws or [Flaw(text, "names with their values, like alpha=100,beta=50")])
        return read
