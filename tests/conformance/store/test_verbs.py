"""Every verb of the store has its statement, every statement its verb, and both agree on parameters and columns."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.store import Transaction, WorkflowChange, engine
from stepwell.store.rows import builder
from stepwell.store.sqlite import transaction as sqlite
from stepwell.store.statement import SQL_FOLDER, Statement, statements

NEEDS_AN_OPEN_GATE = "gates.add_answer"  # a trigger refuses it otherwise
POSTGRES_ONLY = {"schema.database_time", "schema.identity", "schema.notify"}
UUID = "00000000-0000-7000-8000-000000000000"
OF_NAME: dict[str, Any] = {
    "rows": "[]", "misfire": "once", "target": "job", "overrides": "{}",
    "arguments": "{}", "response": "null", "progress": "[]", "data": "null", "level": "INFO",
    "type": "default", "priority": "default", "kind": "queue", "value": "true", "rotation": ["alpha"],
    "wakes": ["work"],
    "endings": [(1, 1, "null", 0.1)], "responses": ["null"], "durations": [0.1], "ids": [1], "tokens": [1],
    "state": "Pending", "insert_workflow.state": "pending", "context": "{}", "tags": "[]", "bypass_steps": "[]",
    "definition": "{}", "decision": "{}", "answer": "null", "insert_operation.state": "done", "filters": "{}",
    "parameters": "{}", "belongs_to": "schedule",
}  # fmt: skip


_SETS_WORKFLOWS = re.compile(r"(?:INSERT INTO|UPDATE) steps_workflows\b(.*?)\b(?:WHERE|VALUES)\b", re.DOTALL)


class _Undo(Exception):
    """Ends a transaction whose writes are not wanted."""


def verbs() -> Iterator[tuple[str, Statement, Any]]:
    for module in pkgutil.iter_modules(engine.__path__):
        for name, verb in vars(importlib.import_module(f"{engine.__name__}.{module.name}")).items():
            if hasattr(verb, "statement") and verb.statement.subject == module.name:
                yield f"{module.name}.{name}", verb.statement, verb


VERBS = {name: (statement, verb) for name, statement, verb in verbs()}


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_statement_has_a_verb_of_its_name_and_every_verb_a_statement(dialect: str) -> None:
    subjects = {path.stem for path in SQL_FOLDER.rglob("*.sql")}
    written = {f"{subject}.{name}" for subject in subjects for name in statements(subject, dialect)}
    expected = set(VERBS) - (POSTGRES_ONLY if dialect == "sqlite" else set())
    assert written == expected
    assert len(VERBS) > 150


def _value(name: str, hint: Any, verb: str = "") -> Any:
    if f"{verb}.{name}" in OF_NAME:
        return OF_NAME[f"{verb}.{name}"]
    if name in OF_NAME and not (name == "ids" and "str" in str(hint)):
        return OF_NAME[name]
    kinds = [kind for kind in (typing.get_args(hint) or (hint,)) if kind is not type(None)]
    kind = kinds[0]
    if typing.get_origin(kind) is typing.Literal:
        return typing.get_args(kind)[0]
    if "Sequence" in str(hint) or "Collection" in str(hint):
        return [1] if "int" in str(hint) else [UUID]
    return {int: 1, str: UUID, datetime: datetime(2026, 1, 1, tzinfo=UTC), float: 1.0, bool: True}[kind]


def _parameters(verb: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(inspect.unwrap(verb))
    given = {name: _value(name, hint, verb.__name__) for name, hint in hints.items() if name not in ("tx", "return")}
    return {**given, "ids": [UUID]} if "locked" in given else given  # the statement takes the ids of the locked rows


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_verb_that_sets_the_state_of_workflows_reports_the_change(dialect: str) -> None:
    found = set()
    for name, (statement, verb) in VERBS.items():
        if dialect == "sqlite" and name in POSTGRES_ONLY:
            continue
        sets = _SETS_WORKFLOWS.search(statement.sql(dialect))
        if sets is not None and re.search(r"\bstate\b", sets[1]):
            found.add(name)
            assert typing.get_type_hints(inspect.unwrap(verb))["return"] == list[WorkflowChange], name
    assert found == {"operator.resolve_workflow", "settling.settle", "workflows.insert_workflow"}


def test_a_verb_can_be_called_with_what_it_declares_and_its_rows_have_the_declared_columns(app: Stepwell) -> None:
    problems = {}
    for name, (statement, verb) in VERBS.items():
        if app.database.dialect == "sqlite" and name in POSTGRES_ONLY:
            continue

        def call(tx: Transaction, statement: Statement = statement, verb: Any = verb) -> None:
            names = _columns(tx, statement, _parameters(verb))
            if names and verb.__wrapped__.__annotations__["return"] != "int":
                builder(statement.returns, names)
            raise _Undo

        try:
            app.database.transact(call)
        except _Undo:
            continue
        except Exception as error:
            if name != NEEDS_AN_OPEN_GATE or "not an open gate" not in str(error):
                problems[name] = error
    assert problems == {}


def _columns(tx: Any, statement: Statement, parameters: dict[str, Any]) -> tuple[str, ...]:
    """Run the statement; gives the names of the columns that it returns."""
    if tx.dialect == "sqlite":
        ready = sqlite.prepared(statement)
        cursor = tx._connection.execute(ready.last, tx._run_first(ready, parameters))
        names = tuple(column[0] for column in cursor.description or ())
    else:
        with tx._connection.cursor() as cursor:
            ready = tx._prepared(statement)
            cursor.execute(ready.sql, ready.adapted(parameters))
            names = tuple(column.name for column in cursor.description or ())
    is_json = len(names) == 1 and names[0].startswith("json_group_array")
    return () if is_json else names
