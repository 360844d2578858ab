"""Writing out macros."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from stepwell.store.macros import (
    agenda,
    counters,
    planner,
    states,
    syntax,
    tasks,
    transitions,
    values_of_sql,
    workflows,
)
from stepwell.store.macros.macro import POSTGRES, SQLITE, Macro, Macros

_MACRO: Final = re.compile(r"@(\w+)(\()?")


def _together(subjects: Iterable[Macros]) -> dict[str, Macro]:
    found: dict[str, Macro] = {}
    for macros in subjects:
        if twice := found.keys() & macros.keys():
            raise ValueError(f"macro defined twice: @{min(twice)}")
        found.update(macros)
    return found


_OF_BOTH: Final = (agenda.MACROS, counters.MACROS, states.MACROS, tasks.MACROS, transitions.MACROS, workflows.MACROS)
_BY_DIALECT: Final = (planner.MACROS_OF, syntax.MACROS_OF, transitions.MACROS_OF, values_of_sql.MACROS_OF)
SHARED_MACROS: Final = {
    dialect: _together([*_OF_BOTH, *(each[dialect] for each in _BY_DIALECT)]) for dialect in (SQLITE, POSTGRES)
}


def expand(text: str, dialect: str, more: Macros | None = None) -> str:
    """The text with its macros expanded for one database; `more` are macros of the caller.

    >>> expand("DELETE FROM steps_marks WHERE id @in(:ids bigint)", "postgres")
    'DELETE FROM steps_marks WHERE id = ANY(CAST(:ids AS bigint[]))'
    >>> expand("DELETE FROM steps_marks WHERE id @in(SELECT 1) @postgres(FOR UPDATE)", "sqlite")
    'DELETE FROM steps_marks WHERE id IN (SELECT 1) '
    """
    macros = _together([SHARED_MACROS[dialect], more or {}])
    done, rest = "", text
    while found := _MACRO.search(rest):
        macro = macros.get(found[1])
        done += rest[: found.start()]
        if isinstance(macro, str) and not found[2]:
            rest = macro + rest[found.end() :]
        elif callable(macro) and found[2]:
            end = _closing(rest, found.end())
            rest = macro(rest[found.end() : end]) + rest[end + 1 :]
        else:
            raise ValueError(f"unknown macro @{found[1]}{'(…)' if found[2] else ''}")
    return done + rest


def _closing(text: str, start: int) -> int:
    """The position of the bracket that closes the one before `start`."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise ValueError(f"unclosed macro: {text[start - 20 : start + 40]!r}")
