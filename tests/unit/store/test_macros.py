"""The macros of the `.sql` files."""

from __future__ import annotations

import re

import pytest

from stepwell.model import reasons, states
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
    in_macros = {"changed_columns", "cascaded"}  # in `@changes` and `@trouble`
    assert used | in_macros == shared | of_files | GENERATED


@pytest.mark.parametrize("text", ["SELECT @lanes", "SELECT @ready", "SELECT @agenda(a)"])
def test_an_unknown_macro_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=f"unknown macro {text.split()[1].split('(')[0]}"):
        expand(text, SQLITE)


def test_no_file_of_sql_spells_out_a_set_of_states_or_reasons_that_the_model_defines() -> None:
    defined = {
        frozenset(map(str, values)): name
        for module in (states, reasons)
        for name, values in vars(module).items()
        if name.isupper() and isinstance(values, frozenset | tuple) and len(values) > 1
    }
    assert {"UNFINISHED", "CASCADED"} <= set(defined.values())
    files = [path for path in SQL_FOLDER.parent.rglob("*.sql") if not re.match(r"\d{4}_", path.name)]
    spelled = [
        f"{path.name}: {defined[names]}"
        for path in files
        for listed in re.findall(r"\(('\w+'(?:,\s*'\w+')+)\)", path.read_text(encoding="utf-8"))
        if (names := frozenset(re.findall(r"\w+", listed))) in defined
    ]
    assert spelled == []


def test_a_subject_cannot_define_a_shared_macro_again() -> None:
    with pytest.raises(ValueError, match="macro defined twice: @ready"):
        expand("SELECT 1", POSTGRES, {"ready": "true"})
