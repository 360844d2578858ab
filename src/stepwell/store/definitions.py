"""The triggers and views of a dialect as one script: re-created by `migrate` whenever they have changed."""

from __future__ import annotations

from functools import cache
from itertools import permutations
from pathlib import Path
from textwrap import indent
from typing import Final

from stepwell.model.states import State, is_legal
from stepwell.store import effects
from stepwell.store.macros import SQLITE, expand

SCHEMA_FOLDER: Final = Path(__file__).parent / "schema"


@cache
def definitions(dialect: str) -> str:
    """The script that creates the triggers and views."""
    views = _texts(SCHEMA_FOLDER, "*views.sql")
    triggers = _texts(SCHEMA_FOLDER / dialect, "*triggers.sql")
    if dialect == SQLITE:
        triggers = triggers.replace("        @illegal_transitions", indent(illegal_transitions(), " " * 8))
        triggers = triggers.replace("    @effects", indent(effects.of_row(), " " * 4))
    return expand(f"{views}\n{triggers}", dialect)


def _texts(folder: Path, pattern: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob(pattern)))


def illegal_transitions() -> str:
    """A WHEN line for each transition that needs an operator or is illegal: RAISE takes only a literal before 3.47."""
    pairs = [f"{origin} to {target}" for origin, target in permutations(State, 2) if not is_legal(origin, target)]
    return "\n".join(f"WHEN '{pair}' THEN RAISE(ABORT, 'illegal transition: {pair}')" for pair in pairs)
