"""The macros of the `.sql` files."""

from __future__ import annotations

import re

import pytest

from stepwell.store.macros import POSTGRES, SQLITE, expand
from stepwell.store.macros.expansion import SHARED_MACROS
from stepwell.store.statement import SQL_FOLDER

# How `store/effects.py` and `store/definitions.py` insert what they generate.
GENERATED = {"effects", "illegal_transitions", "changed_rows"}


def sql_files() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in SQL_FOLDER.parent.rglob("*.sql"))


def test_every_macro_is_defined_and_every_definition_is_used() -> None:
    text = sql_files()
    of_files = set(re.findall(r"^-- macro: (\w+)", text, re.MULTILINE))
    used = set(re.findall(r"@(\w+)", re.sub(r"--.*", "", text)))
    shared = {name for dialect in (SQLITE, POSTGRES) for name in SHARED_MACROS[dialect]}
    in_macros = {"changed_columns"}  # in `@changes`
    assert used | in_macros == shared | of_files | GENERATED


@pytest.mark.parametrize("text", ["SELECT @lanes", "SELECT @ready", "SELECT @agenda(a)"])
def test_an_unknown_macro_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=f"unknown macro {text.split()[1].split('(')[0]}"):
        expand(text, SQLITE)


def test_a_subject_cannot_define_a_shared_macro_again() -> None:
    with pytest.raises(ValueError, match="macro defined twice: @ready"):
        expand("SELECT 1", POSTGRES, {"ready": "true"})
