"""Verbs: typed functions, each with its SQL under its own name in `sql/<module>.sql`.

    @query
    def marks_of_group(tx: Transaction, *, group: str) -> list[Mark]:
        ...

in `engine/ticks.py` runs the statement `marks_of_group` of `sql/ticks.sql` (or of `sql/sqlite/ticks.sql` and
`sql/postgres/ticks.sql`, where the two databases need different ones). Its parameters are those of the statement, its
return annotation is the type of the rows. Nothing else in Stepwell refers to a statement by name.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable
from functools import cache, cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar, cast

import msgspec

from stepwell.model.features import WORKFLOW
from stepwell.store import effects
from stepwell.store.changes import Change, WorkflowChange
from stepwell.store.macros import POSTGRES, SQLITE, Macro, expand
from stepwell.store.rows import is_record
from stepwell.store.wake import Wake

if typing.TYPE_CHECKING:
    from stepwell.store.transaction import Transaction

P = ParamSpec("P")
T = TypeVar("T")
Verb = Callable[Concatenate["Transaction", P], T]

SQL_FOLDER: Final = Path(__file__).parent / "sql"
_ADAPTERS: Final = {SQLITE: "sqlite3", POSTGRES: "psycopg"}
_HEADING: Final = re.compile(r"^-- (name|macro): (\w+)", re.MULTILINE)
_COMMENT: Final = re.compile(r"^--.*\n", re.MULTILINE)


class Statement:
    """The SQL behind one verb."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = function.__name__
        self.subject = function.__module__.rpartition(".")[2]
        self._function = function
        self.prepared: dict[str, Any] = {}  # by dialect, what its transactions keep about the statement

    def __str__(self) -> str:
        return f"{self.subject}.{self.name}"

    @cached_property
    def returns(self) -> Any:
        """The type of a row."""
        hint = typing.get_type_hints(self._function, include_extras=True)["return"]
        if typing.get_origin(hint) is list:
            return typing.get_args(hint)[0]
        if not is_record(hint) and type(None) in typing.get_args(hint):
            kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
            return kinds[0] if len(kinds) == 1 else hint
        return hint

    @cached_property
    def returns_all(self) -> bool:
        """Whether the verb returns every row, not only the first."""
        hint = typing.get_type_hints(self._function, include_extras=True)["return"]
        return typing.get_origin(hint) is list

    def sql(self, dialect: str) -> str:
        return sql_of(self.subject, dialect, self.name)


def statements(subject: str, dialect: str) -> dict[str, str]:
    """Every statement of a subject, with its macros expanded and the placeholders of the driver."""
    return {name: sql_of(subject, dialect, name) for name in _texts(subject, dialect, "name")}


@cache
def sql_of(subject: str, dialect: str, name: str) -> str:
    """One of them."""
    # One by one, when it is first used: to parse all of them took a tenth of the start of a worker.
    import aiosql  # imported here: it takes a fifth of the import time of Stepwell

    macros: dict[str, Macro] = {**_texts(subject, dialect, "macro")}
    if dialect == SQLITE:
        macros["effects"] = lambda moves: effects.of_batch(moves.split(", "))
    text = expand(_texts(subject, dialect, "name")[name], dialect, macros)
    return str(getattr(aiosql.from_str(text, _ADAPTERS[dialect]), name).sql)


@cache
def _texts(subject: str, dialect: str, kind: Literal["name", "macro"]) -> dict[str, str]:
    """The statements of a subject as they are written, or the macros that only they use; by name."""
    found: dict[str, str] = {}
    for path in (SQL_FOLDER / f"{subject}.sql", SQL_FOLDER / dialect / f"{subject}.sql"):
        if not path.exists():
            continue
        _, *texts = _HEADING.split(path.read_text(encoding="utf-8"))
        for kind_of_text, name, text in zip(texts[::3], texts[1::3], texts[2::3], strict=True):
            if kind_of_text != kind:
                continue
            if name in found:
                raise ValueError(f"{subject}.{name} is defined twice for {dialect}")
            found[name] = f"-- name: {name}{text}" if kind == "name" else _COMMENT.sub("", text).strip()
    return found


def query(function: Verb[P, T]) -> Verb[P, T]:
    """A read. `list[Row]` returns every row, `Row | None` the first; a row with one column is its value."""
    statement = Statement(function)
    return _verb(function, statement, lambda tx, parameters: tx.query(statement, parameters))


def records(function: Verb[P, T]) -> Verb[P, T]:
    """The same for many rows on the hot path: built from the columns by position, not by name."""
    statement = Statement(function)
    return _verb(function, statement, lambda tx, parameters: tx.records(statement, parameters))


def change(function: Verb[P, int]) -> Verb[P, int]:
    """A write that moves no step; returns how many rows it changed."""
    statement = Statement(function)
    return _verb(function, statement, lambda tx, parameters: tx.change(statement, parameters))


def change_and_wake(wake: Wake) -> Callable[[Verb[P, int]], Verb[P, int]]:
    """The same; if it changed any row, the commit sends this wake-up."""

    def decorate(function: Verb[P, int]) -> Verb[P, int]:
        statement = Statement(function)

        def run(tx: Transaction, parameters: dict[str, Any]) -> int:
            changed = tx.change(statement, parameters)
            if changed:
                tx.wake(wake)
            return changed

        return _verb(function, statement, run)

    return decorate


def transition(function: Verb[P, list[Change]]) -> Verb[P, list[Change]]:
    """A change of states: one guarded statement, which returns the rows that it changed.

    Calls the change hooks. The commit wakes the dispatchers, because the change may affect other steps.
    """
    return _transition(function, Wake.DECISIONS)


def transition_in_tick(function: Verb[P, list[Change]]) -> Verb[P, list[Change]]:
    """The same in a tick, without a wake-up: the dispatcher ticks again at once while there is progress."""
    return _transition(function, None)


def _transition(function: Verb[P, list[Change]], wake: Wake | None) -> Verb[P, list[Change]]:
    statement = Statement(function)

    def run(tx: Transaction, parameters: dict[str, Any]) -> list[Change]:
        changes: list[Change] = tx.query(statement, parameters)
        if changes:
            if wake is not None:
                tx.wake(wake)
            for each in changes:
                if each.belongs_to is not None:
                    tx.touch_step(each, each.step_id, each.actor)
            tx.changed([each for each in changes if each.from_state is not each.to_state])
        return changes

    return _verb(function, statement, run)


def workflow_transition(function: Verb[P, list[WorkflowChange]]) -> Verb[P, list[WorkflowChange]]:
    """A change of the states of declared workflows: one guarded statement, which returns the rows that it changed.

    `locked` are the workflows before it, by which the changes know from which state; the statement takes their `ids`.
    A verb without them creates workflows. The hooks are called with the changes after the commit.
    """
    statement = Statement(function)

    def run(tx: Transaction, parameters: dict[str, Any]) -> list[WorkflowChange]:
        before = {row.id: row.state for row in parameters.pop("locked", ())}
        found = tx.query(statement, {**parameters, "ids": list(before)})
        changes = [msgspec.structs.replace(each, from_state=before.get(each.workflow_id)) for each in found]
        tx.workflows_changed(changes)
        return changes

    return _verb(function, statement, run)


def change_and_settle(function: Verb[P, int]) -> Verb[P, int]:
    """A write to the row of the declared workflow `workflow` from which another state may follow.

    It is set before the commit, by the `actor` of the write.
    """
    statement = Statement(function)

    def run(tx: Transaction, parameters: dict[str, Any]) -> int:
        changed = tx.change(statement, parameters)
        if changed:
            tx.touch(WORKFLOW, parameters["workflow"], parameters["actor"])
        return changed

    return _verb(function, statement, run)


def _verb(function: Verb[P, T], statement: Statement, run: Callable[[Transaction, dict[str, Any]], Any]) -> Verb[P, T]:
    @wraps(function)
    def verb(tx: Transaction, *arguments: P.args, **parameters: P.kwargs) -> T:
        assert not arguments, f"{statement}: pass parameters by name"
        result: T = run(tx, parameters)
        return result

    verb.statement = statement  # type: ignore[attr-defined]
    return cast(Verb[P, T], verb)
