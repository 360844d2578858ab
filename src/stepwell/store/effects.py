"""The effects of a transition on SQLite, for one row (the trigger) or for a batch: see `schema/sqlite/effects.sql`.

PostgreSQL has statement triggers and needs none of this: its effects are in `schema/postgres/triggers.sql`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from stepwell.store.macros import SQLITE, expand

EFFECTS_FILE: Final = Path(__file__).parent / "schema" / "sqlite" / "effects.sql"

_ROWS: Final = "changed_rows"
_HEADING: Final = re.compile(r"^-- effect: (\w+) \(([\w, ]+)\)\n", re.MULTILINE)
_COMMENT: Final = re.compile(r"^\s*--.*\n", re.MULTILINE)
_COLUMN: Final = re.compile(r'\bc\.("group"|\w+)')
_ROWS_OF_BATCH: Final = (
    "(SELECT s.*, s.changed_from AS from_state\n"
    "      FROM json_each(:ids) i CROSS JOIN steps s ON s.id = i.value AND s.batch = :batch) AS c"
)
_COLUMNS_OF_ROW: Final = {"from_state": "OLD.state", "updated_at": "max(NEW.updated_at, OLD.updated_at)"}


@dataclass(frozen=True, slots=True)
class Effect:
    """One statement that runs with a transition, and the moves to which it applies."""

    name: str
    moves: frozenset[str]
    sql: str

    def for_batch(self) -> str:
        """The SQL for the rows of `:ids` that the batch `:batch` has changed."""
        return self.sql.replace(_ROWS, _ROWS_OF_BATCH)

    def for_row(self) -> str:
        """The SQL for the row of a trigger."""
        sql = self.sql.replace(f"FROM {_ROWS} CROSS JOIN", "FROM")
        sql = re.sub(rf"\s+FROM {_ROWS}\b", "", sql)
        return _COLUMN.sub(lambda column: _COLUMNS_OF_ROW.get(column[1], f"NEW.{column[1]}"), sql)


@cache
def effects() -> tuple[Effect, ...]:
    """All effects, in the order of the file."""
    _, *parts = _HEADING.split(EFFECTS_FILE.read_text(encoding="utf-8"))
    return tuple(
        Effect(name, frozenset(moves.split(", ")), _statement(body))
        for name, moves, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    )


def _statement(body: str) -> str:
    return expand(_COMMENT.sub("", body).replace(f"@{_ROWS}", _ROWS), SQLITE).strip().removesuffix(";")


def of_batch(moves: Collection[str]) -> str:
    """The statements of a batch that makes these moves."""
    unknown = set(moves) - {move for effect in effects() for move in effect.moves}
    if unknown:
        raise ValueError(f"no effect applies to {', '.join(sorted(unknown))}")
    return ";\n".join(effect.for_batch() for effect in effects() if effect.moves.intersection(moves))


def of_row() -> str:
    """The statements of the trigger."""
    return "\n".join(f"{effect.for_row()};" for effect in effects())
