"""Reading values of a configuration: what is wrong with each, with its place and a hint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from stepwell.model.suggest import near
from stepwell.processes.config.sources import ConfigSource
from stepwell.service.config.kinds import BadValue, Kind, as_toml
from stepwell.service.config.words import one_of

Place: TypeAlias = tuple[str | int, ...]

_SUPERFLUOUS: Final = {
    "phpExecutable": "Stepwell starts its own processes; remove it",
    "applicationPhpFile": "Stepwell finds the code by `--app`; remove it",
}
_LONGEST: Final = 60  # of a value in a message


class Problems:
    """Reads values of one source, and collects what is wrong with them."""

    def __init__(self, source: ConfigSource) -> None:
        self._source = source
        self._found: list[tuple[int, str]] = []

    def texts(self) -> list[str]:
        """Every problem once, in the order of the lines."""
        return list(dict.fromkeys(text for _, text in sorted(self._found, key=lambda found: found[0])))

    def add(self, place: Place, text: str) -> None:
        label = _label(place)
        line = self._source.line_of(place) or 0
        self._found.append((line, f"{self._source.where(place)}: {f'{label}: ' if label else ''}{text}"))

    def value(self, place: Place, kind: Kind[Any], value: Any) -> Any:
        """A value of this kind; None if it is not."""
        try:
            return kind.read(value)
        except BadValue as error:
            for flaw in error.flaws:
                self.add((*place, *flaw.at), f"{shown(flaw.value)}: expected {flaw.expected}")
            return None

    def choice(self, place: Place, given: Any, options: tuple[str, ...]) -> str | None:
        """One of the names, or a class of that name; it may have the suffix that it has in Crystal."""
        if given is None:
            return None
        name = given if isinstance(given, str) else getattr(given, "__name__", None)
        if not isinstance(name, str):
            name = type(given).__name__
        for suffix in ("", "Strategy", "RangeStrategy", "PriorityStrategy"):
            if (short := name.removesuffix(suffix)) in options:
                return short
        self.add(place, f"{shown(name)}: expected {one_of([as_toml(option) for option in options])}")
        return None

    def class_of(self, place: Place, table: Mapping[str, Any]) -> str | None:
        """The class of a task, which is the name of a job."""
        if "class" not in table:
            self.add(place, "class is missing; it is the name of a job")
            return None
        name = name_of(table["class"])
        if name is None:
            self.add((*place, "class"), f"{shown(table['class'])}: expected the name of a job")
        return name

    def unknown_class(self, place: Place, name: str, classes: Iterable[str]) -> None:
        self.add(place, f"no task has the class {name!r}; {_hint(name, classes, 'classes')}")

    def tables(self, place: Place, value: Any, content: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """A table of tables, which must not be empty: each of them with its key."""
        if not isinstance(value, Mapping) or not value:
            self.add(place, "expected a table" if value else "is missing or empty; expected a table")
            return
        for key, table in value.items():
            if not isinstance(key, str) or not key.strip():
                self.add((*place, str(key)), f"{shown(key)}: expected text as the key")
            elif not isinstance(table, Mapping):
                self.add((*place, key), f"{shown(table)}: expected a table with {content}")
            else:
                yield key, table

    def check_keys(self, place: Place, table: Mapping[str, Any], valid: Iterable[str]) -> None:
        for key in table:
            if key not in valid:
                advice = _SUPERFLUOUS.get(str(key)) or _hint(_snake(str(key)), valid, "keys")
                self.add((*place, str(key)), f"unknown key; {advice}")


def name_of(value: Any) -> str | None:
    """The name of a job: text, or the job itself."""
    name = value if isinstance(value, str) else getattr(value, "action", None)
    return name if isinstance(name, str) and name.strip() else None


def shown(value: Any) -> str:
    """A value in a message."""
    match value:
        case None:
            text = "null"
        case str() | int() | float():
            text = as_toml(value)
        case Mapping():
            text = "a table"
        case list() | tuple():
            text = "a list"
        case _:
            text = type(value).__name__
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _snake(key: str) -> str:
    """A key as it is written here, of one in camel case.

    >>> _snake("maxExecutionSlots"), _snake("dependOn")
    ('max_execution_slots', 'depend_on')
    """
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: f"_{match[0].lower()}", key)


def _hint(word: str, valid: Iterable[str], what: str) -> str:
    names = list(valid)
    meant = near(word, names)
    return f"did you mean {meant}?" if meant is not None else f"valid {what}: {', '.join(names)}"


def _label(place: Place) -> str:
    """A place as text, counted from 1.

    >>> _label(("main_processes", "nightly", "tasks", 0, "class"))
    'main_processes.nightly.tasks[1].class'
    """
    label = ""
    for part in place:
        label += f"[{part + 1}]" if isinstance(part, int) else f"{'.' if label else ''}{part}"
    return label
