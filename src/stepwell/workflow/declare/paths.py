"""Paths: read from text, and checked against what is known about contexts and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stepwell.workflow import schemas
from stepwell.workflow.declare.annotations import fields_of, type_at, without_none
from stepwell.workflow.declare.context import Context
from stepwell.workflow.declare.declaration import Declaration
from stepwell.workflow.declare.words import shown, suggestion
from stepwell.workflow.template import CONTEXT, Path


def path_of(text: Any) -> Path | None:
    """A path from text; None if it is not one.

    >>> path_of("payment.amount"), path_of("payment..amount"), path_of(7)
    (Path(root='payment', keys=('amount',)), None, None)
    """
    if not isinstance(text, str):
        return None
    root, *keys = text.split(".")
    return Path(root, tuple(keys)) if root and all(keys) else None


@dataclass(frozen=True, slots=True)
class Scope:
    """What paths can refer to: the context, and the steps by name."""

    context: Context
    steps: Mapping[str, Declaration]

    def read(self, text: Any, whose: str, own_name: Any) -> Iterator[Path | str]:
        """The path in a text, if it is valid, and what is wrong with it."""
        path = path_of(text)
        if path is None:
            yield f"{whose} {shown(text)}: expected a path, for example 'context.customer' or 'payment.amount'"
            return
        problems = list(self.problems_of(path, own_name))
        yield from (f"{whose} {shown(text)}: {problem}" for problem in problems)
        if not problems:
            yield path

    def problems_of(self, path: Path, own_name: Any) -> Iterator[str]:
        if path.root == own_name:
            yield f"step {own_name!r} depends on itself"
        elif path.root == CONTEXT:
            yield from _problem_of_keys("the context", path, self.context.schema)
        elif path.root not in self.steps:
            yield self.unknown_root(path)
        elif path.keys and (step := self.steps[path.root]).kind == "map":
            yield f"step {step.name!r} is a map: its result is a list, which has no {path.keys[0]!r}"
        elif path.keys:
            schema = step.result.schema if step.kind == "gate" else _schema_of_result(step.returns)
            yield from _problem_of_keys(f"the result of {step.name!r}", path, schema)

    def unknown_root(self, path: Path) -> str:
        fields = self.context.fields or {}
        if path.root in fields:
            return f"unknown step {path.root!r}; did you mean 'context.{path}'?"
        return f"unknown step {path.root!r}; {suggestion(path.root, [*self.steps, CONTEXT], 'steps')}"

    def type_of(self, path: Path) -> Any:
        """The type of the value at a path; a list, if it is the result of a map."""
        if path.step is None:
            return type_at(self.context.type, path.keys)
        step = self.steps[path.step]
        if step.kind == "map":
            element: Any = step.returns
            return list[element]
        return type_at(step.returns, path.keys)


def _schema_of_result(returns: Any) -> dict[str, Any] | None:
    if fields_of(without_none(returns)) is None:
        return None
    try:
        return schemas.schema_of(without_none(returns))
    except Exception:  # a type that has no schema
        return None


def _problem_of_keys(whole: str, path: Path, schema: dict[str, Any] | None) -> Iterator[str]:
    if schema is not None and (found := schemas.unknown_key(schema, path.keys)) is not None:
        position, known = found
        within = ".".join(path.keys[:position])
        place = f"{within!r} of {whole}" if within else whole
        yield f"{place} has no {path.keys[position]!r}; {suggestion(path.keys[position], known, 'fields')}"
