"""A step as it was written, in Python or in YAML, before anything is checked."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwell.define.definition import JobDefinition
from stepwell.define.signature import hints_of
from stepwell.model.step import StepKind
from stepwell.workflow.declare.annotations import UNKNOWN
from stepwell.workflow.declare.context import Context
from stepwell.workflow.declare.problems import Problem


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a step's code."""

    name: str
    hint: Any = UNKNOWN
    has_default: bool = False
    unresolved: str = ""  # an annotation that Python cannot resolve


@dataclass(frozen=True, slots=True)
class Shape:
    """What a step's code takes and returns."""

    parameters: tuple[Parameter, ...] = ()
    takes_others: bool = False  # **kwargs
    returns: Any = UNKNOWN
    unresolved_return: str = ""

    @property
    def names(self) -> list[str]:
        return [parameter.name for parameter in self.parameters]


def shape_of(code: Any) -> Shape:
    """The parameters and the result of a function, a coroutine function or a `Job` class."""
    hints = hints_of(code)
    compute = code.compute if isinstance(code, type) and hasattr(code, "compute") else code
    parameters, takes_others = [], False
    for each in inspect.signature(code).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            takes_others = True
        elif each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            annotated = each.annotation is not each.empty
            unresolved = str(each.annotation) if annotated and each.name not in hints else ""
            parameters.append(
                Parameter(each.name, hints.get(each.name, UNKNOWN), each.default is not each.empty, unresolved)
            )
    returns = hints_of(compute).get("return", UNKNOWN)
    written = getattr(inspect.unwrap(compute), "__annotations__", {}).get("return", "")
    return Shape(
        tuple(parameters),
        takes_others,
        returns,
        written if returns is UNKNOWN and isinstance(written, str) and written not in ("Any", "typing.Any") else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One step of a workflow. Values are as they were written; `resolve` checks them."""

    name: Any
    kind: StepKind = "job"
    job: JobDefinition[..., Any] | None = None
    shape: Shape | None = None  # None: a gate, or code that is not known
    result: Context = field(default_factory=Context)  # of a gate
    inputs: Any = field(default_factory=dict)
    after: Any = ()
    when: Any = field(default_factory=dict)
    each: Any = None
    trigger: Any = "all_concluded"
    settings: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()  # found where it was written
    at: int = 0  # its line, in a file

    @property
    def returns(self) -> Any:
        """The type of one result: of each element, if it is a map."""
        return self.result.type if self.shape is None else self.shape.returns

    def problem(self, message: str, key: str = "", *, shows_key: bool = False) -> Problem:
        return Problem(message, str(self.name), key, shows_key, self.at)
