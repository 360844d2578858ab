"""Concurrency keys as templates: "customer:{customer}" is evaluated from the JSON of a step's arguments.

A template can be stored, so that a program without the code can evaluate it; a function of the arguments cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

from stepwell.model import codec
from stepwell.model.errors import InvalidStep


@dataclass(frozen=True, slots=True)
class KeyTemplate:
    """Text with names of arguments in braces; `{{` and `}}` are braces.

    >>> template = KeyTemplate.of("{kind} {{{customer}}}")
    >>> template(kind="gold", customer=17, amount=3)
    'gold {17}'
    >>> KeyTemplate.of("{customer.id}")
    "'customer.id' is not the name of an argument"
    """

    text: str
    parts: tuple[tuple[str, str | None], ...]  # text, and the name of the argument after it

    @classmethod
    def of(cls, text: str) -> KeyTemplate | str:
        """The template, or what is wrong with the text."""
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            return f"{error}; write {{{{ and }}}} for braces"
        for _, name, form, conversion in parts:
            if name is not None and (not name.isidentifier() or form or conversion):
                return f"{name!r} is not the name of an argument"
        return cls(text, tuple((literal, name) for literal, name, _, _ in parts))

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.parts if name is not None]

    def __call__(self, **arguments: Any) -> str:
        return "".join(
            f"{literal}{'' if name is None else self._value(name, arguments)}" for literal, name in self.parts
        )

    def _value(self, name: str, arguments: Mapping[str, Any]) -> str:
        """A string as it is, everything else as JSON: the same for a Python value and for what was stored of it."""
        if name not in arguments:
            raise InvalidStep(f"its concurrency key is {self.text!r}, but it has no argument {name!r}")
        stored = codec.encode(arguments[name])
        return str(codec.decode(stored)) if stored.startswith('"') else stored
