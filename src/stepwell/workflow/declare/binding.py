"""What each parameter of a step takes: constants, elements, the context and its fields, results of other steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stepwell.define.signature import convert, decodable
from stepwell.workflow.declare.annotations import (
    UNKNOWN,
    element_of,
    is_outcome,
    plain,
    result_of_outcome,
    takes_none,
    without_none,
)
from stepwell.workflow.declare.compatible import can_take
from stepwell.workflow.declare.declaration import Declaration, Parameter, Shape
from stepwell.workflow.declare.paths import Scope
from stepwell.workflow.declare.problems import Problem
from stepwell.workflow.declare.type_names import type_name
from stepwell.workflow.declare.words import shown, suggestion
from stepwell.workflow.template import CONTEXT, Input, Path

_ANYTHING: Final = (UNKNOWN, object)


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds the parameters of one step."""

    step: Declaration
    shape: Shape
    scope: Scope
    arguments: Mapping[str, Any]
    each: str | None  # the parameter that takes the element
    sources: list[Path] = field(default_factory=list)  # also those that do not fit

    def bind(self) -> Iterator[Input | Problem]:
        explicit = self.step.inputs if isinstance(self.step.inputs, Mapping) else {}
        if explicit is not self.step.inputs:
            yield self._flaw(
                f"inputs is {shown(self.step.inputs)}: expected a mapping from parameters to paths", "inputs"
            )
        yield from self._unknown_names(explicit)
        for parameter in self._parameters(explicit):
            if parameter.name in self.arguments:
                yield from self._constant(parameter)
            elif parameter.name in explicit:
                for found in self.scope.read(explicit[parameter.name], f"inputs.{parameter.name}", self.step.name):
                    yield from (
                        self._take(parameter, found) if isinstance(found, Path) else [self._flaw(found, "inputs")]
                    )
            elif parameter.name != self.each:
                yield from self._by_name(parameter)

    def _parameters(self, explicit: Mapping[Any, Any]) -> Iterator[Parameter]:
        yield from self.shape.parameters
        if self.shape.takes_others:
            known = {*self.shape.names, self.each}
            yield from (Parameter(name) for name in explicit if isinstance(name, str) and name not in known)

    def _unknown_names(self, explicit: Mapping[Any, Any]) -> Iterator[Problem]:
        shape = self.shape
        for key, given in (("inputs", explicit), ("arguments", self.arguments)):
            for name in given:
                if name not in shape.names and not (shape.takes_others and isinstance(name, str)):
                    hint = suggestion(str(name), shape.names, "parameters")
                    yield self._flaw(f"the code has no parameter {name!r}; {hint}", key, shows_key=True)
        twice = [name for name in explicit if name in self.arguments or name == self.each]
        for name in (*twice, *({self.each} & self.arguments.keys())):
            yield self._flaw(f"parameter {name!r} has two sources; remove one of them")

    def _constant(self, parameter: Parameter) -> Iterator[Problem]:
        hint = decodable(parameter.hint)
        if hint is UNKNOWN:
            return
        try:
            convert(self.arguments[parameter.name], hint)
        except (ValueError, TypeError) as error:
            yield self._flaw(f"{parameter.name}: {error}", "arguments", shows_key=True)

    def _by_name(self, parameter: Parameter) -> Iterator[Input | Problem]:
        name, fields = parameter.name, self.scope.context.fields
        if name == CONTEXT:
            yield from self._take(parameter, Path(CONTEXT))
        elif name == self.step.name:
            if not parameter.has_default:
                yield self._flaw(
                    f"step {name!r} depends on itself: its parameter has its own name; rename one", "inputs"
                )
        elif name in self.scope.steps:
            yield from self._take(parameter, Path(name))
        elif fields is not None and name in fields:
            yield from self._take(parameter, Path(CONTEXT, (name,)))
        elif not parameter.has_default:
            others = [step for step in self.scope.steps if step != self.step.name]
            hint = suggestion(name, dict.fromkeys([CONTEXT, *others, *(fields or {})]), "names")
            yield self._flaw(
                f"parameter {name!r} is neither a step nor a known field of the context ({hint}); name its source in "
                "inputs, or give it a default or a constant"
            )

    # sources --------------------------------------------------------------------------------------------

    def _take(self, parameter: Parameter, path: Path) -> Iterator[Input | Problem]:
        self.sources.append(path)
        problems = list(self._problems_of_source(parameter, path))
        yield from problems
        if problems:
            return
        name = parameter.unresolved or type_name(parameter.hint)
        if path.step is None:
            yield Input(parameter=parameter.name, source=path, type=name)
            return
        body = without_none(parameter.hint)
        is_list = self.scope.steps[path.step].kind == "map"
        element = element_of(body) if is_list else None
        outcome = is_outcome(body) or is_outcome(element)
        yield Input(
            parameter=parameter.name,
            source=path,
            type=name,
            optional=takes_none(parameter.hint),
            is_list=is_list,
            keeps_skipped=not outcome and element is not None and takes_none(element),
            is_outcome=outcome,
        )

    def _problems_of_source(self, parameter: Parameter, path: Path) -> Iterator[Problem]:
        what, hint = f"parameter {parameter.name!r}", plain(parameter.hint)
        source = self.scope.type_of(path)
        has_outcome = any(is_outcome(each) for each in (without_none(hint), element_of(without_none(hint))))
        if path.step is None:
            if has_outcome:
                yield self._flaw(f"{what} takes {str(path)!r}, which has no Outcome; annotate it with its type")
            elif not can_take(hint, source):
                yield self._flaw(f"{what} cannot take {str(path)!r}: {_mismatch(hint, source)}")
            return
        if parameter.unresolved:
            yield self._flaw(
                f"{what}: its annotation {parameter.unresolved!r} cannot be resolved, so that it is not known what "
                "a skipped input means; import its names at module level, not only for the type checker"
            )
        elif self.step.trigger in ("any_concluded", "all_ended"):
            yield from self._problems_of_outcome(what, hint, path)
        elif has_outcome:
            yield self._flaw(
                f"{what} is an Outcome, which needs trigger 'any_concluded' or 'all_ended'; annotate it with the type "
                f"of the result, or with `| None` to run although {path.step!r} was skipped"
            )
        else:
            yield from self._problems_of_result(what, hint, path, source)

    def _problems_of_outcome(self, what: str, hint: Any, path: Path) -> Iterator[Problem]:
        upstream = self.scope.steps[str(path.step)]
        wanted = f"Outcome[{_short(upstream.returns)}]"
        wanted = f"list[{wanted}]" if upstream.kind == "map" else wanted
        given = element_of(hint) if upstream.kind == "map" else hint
        if path.keys:
            yield self._flaw(f"{what} takes {str(path)!r}, but an Outcome is that of a whole step; take {path.step!r}")
        elif not is_outcome(given):
            yield self._flaw(
                f"{what} must be an Outcome, because with trigger {self.step.trigger!r} {path.step!r} may have no "
                f"result; annotate it {wanted}"
            )
        elif not can_take(result_of_outcome(given), upstream.returns):
            yield self._flaw(f"{what}: {_mismatch(result_of_outcome(given), upstream.returns)}; annotate it {wanted}")
        elif decodable(hint) is UNKNOWN:
            yield self._flaw(f"{what}: {_short(hint)} cannot be decoded from JSON; annotate it Outcome[Any]")

    def _problems_of_result(self, what: str, hint: Any, path: Path, source: Any) -> Iterator[Problem]:
        upstream = self.scope.steps[str(path.step)]
        body = without_none(hint)
        if upstream.kind == "map" and body not in _ANYTHING and element_of(body) is None:
            yield self._flaw(
                f"{what} is {_short(hint)}, but {path.step!r} is a map, whose result is a list; annotate it "
                f"list[{_short(upstream.returns)}]"
            )
        elif not can_take(hint, source):
            yield self._flaw(f"{what} cannot take {str(path)!r}: {_mismatch(hint, source)}; change one of them")

    def _flaw(self, message: str, key: str = "inputs", *, shows_key: bool = False) -> Problem:
        return self.step.problem(message, key, shows_key=shows_key)


def _mismatch(target: Any, source: Any) -> str:
    return f"it is annotated {_short(target)}, but the value is {_short(source)}"


def _short(hint: Any) -> str:
    """A type as people write it: without modules."""
    return re.sub(r"(?:\w+\.|<locals>\.)+(?=\w)", "", type_name(hint))
