"""One step of a template, from its declaration."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from stepwell.define.signature import decodable
from stepwell.model import codec
from stepwell.model.errors import UnstorableValue
from stepwell.workflow import schemas
from stepwell.workflow.declare.annotations import UNKNOWN, element_of, is_outcome, without_none
from stepwell.workflow.declare.binding import Binder
from stepwell.workflow.declare.compatible import can_take
from stepwell.workflow.declare.declaration import Declaration, Shape
from stepwell.workflow.declare.paths import Scope
from stepwell.workflow.declare.problems import Problem
from stepwell.workflow.declare.settings import read_settings
from stepwell.workflow.declare.type_names import code_name, type_name
from stepwell.workflow.declare.words import shown, suggestion
from stepwell.workflow.template import Condition, Each, Input, Path, StepTemplate

TRIGGERS: Final = ("all_concluded", "any_concluded", "all_ended")


@dataclass(slots=True)
class StepResolver:
    """Builds one step of a template; finds its upstream steps and its problems."""

    step: Declaration
    scope: Scope
    upstream: set[str] = field(default_factory=set)  # without itself and what does not exist
    problems: list[Problem] = field(default_factory=list)

    def resolve(self) -> StepTemplate | None:
        """The step, unless it has problems."""
        values: dict[str, Any] = {}
        for part in (*self.step.problems, *self._parts()):
            if isinstance(part, Problem):
                self.problems.append(part)
            else:
                values |= part
        if self.problems:
            return None
        values = {key: value for key, value in values.items() if value != _DEFAULTS[key]}
        return StepTemplate(name=self.step.name, kind=self.step.kind, **values)

    def _parts(self) -> Iterator[dict[str, Any] | Problem]:
        """Fields of the template, and problems."""
        step = self.step
        settings, bad = read_settings(step.settings, step.kind)
        yield settings
        yield from (self.step.problem(message, key, shows_key=True) for key, message in bad)
        if step.trigger not in TRIGGERS:
            hint = suggestion(str(step.trigger), TRIGGERS, "triggers")
            yield self.step.problem(f"unknown trigger {shown(step.trigger)}; {hint}", "trigger")
        yield {"trigger": step.trigger}
        conditions = list(self._conditions())
        yield from (each for each in conditions if isinstance(each, Problem))
        met = tuple(each for each in conditions if isinstance(each, Condition))
        self._depend_on(each.path for each in met)
        yield {"conditions": met}
        yield from self._gate() if step.kind == "gate" else self._code(settings)
        yield from self._after()

    def _depend_on(self, paths: Iterable[Path]) -> None:
        self.upstream.update(path.step for path in paths if path.step is not None)

    # order and conditions ---------------------------------------------------------------------------------

    def _after(self) -> Iterator[dict[str, Any] | Problem]:
        """Only steps of which it takes no data: the others are upstream anyway."""
        after = [self.step.after] if isinstance(self.step.after, str) else self.step.after
        if not isinstance(after, Sequence) or not all(isinstance(name, str) for name in after):
            yield self.step.problem(f"expected a list of steps, not {shown(self.step.after)}", "after", shows_key=True)
            return
        for name in after:
            if name == self.step.name:
                yield self.step.problem(
                    f"step {name!r} depends on itself; remove it from its own dependencies", "after"
                )
            elif name not in self.scope.steps:
                hint = suggestion(name, [each for each in self.scope.steps if each != self.step.name], "steps")
                yield self.step.problem(f"unknown step {name!r}; {hint}", "after", shows_key=True)
        others = {*after} - self.upstream
        self.upstream |= others & self.scope.steps.keys() - {self.step.name}
        yield {"after": tuple(sorted(others))}

    def _conditions(self) -> Iterator[Condition | Problem]:
        when = {} if self.step.when is None else self.step.when
        if not isinstance(when, Mapping):
            yield self.step.problem(f"when is {shown(when)}: expected a mapping from paths to values", "when")
            return
        for text in sorted(when, key=str):
            values = list(when[text]) if isinstance(when[text], list | tuple | set | frozenset) else [when[text]]
            for found in self.scope.read(text, "when", self.step.name):
                if isinstance(found, str):
                    yield self.step.problem(found, "when")
                else:
                    yield from self._condition(found, values)

    def _condition(self, path: Path, values: list[Any]) -> Iterator[Condition | Problem]:
        if not values:
            yield self.step.problem(f"when {path}: an empty list of values is never met; name at least one", "when")
            return
        try:
            plain = codec.decode(codec.encode(values, f"when {path}"))
        except UnstorableValue as error:
            yield self.step.problem(str(error), "when")
            return
        if path.step is None and self.scope.context.schema is not None:
            for value in plain:
                if (kind := schemas.other_type(self.scope.context.schema, path.keys, value)) is not None:
                    yield self.step.problem(
                        f"when {path}: {shown(value)} is never met, because the value is {kind}", "when"
                    )
        yield Condition(path, tuple(plain))

    # kinds ------------------------------------------------------------------------------------------------

    def _gate(self) -> Iterator[dict[str, Any] | Problem]:
        step = self.step
        if step.inputs or step.each is not None:
            key = "inputs" if step.inputs else "each"
            yield self.step.problem(
                f"a gate runs no code and takes no data: remove {key}, and name the steps that it waits for instead",
                key,
            )
        if step.result.problem is not None:
            yield self.step.problem(step.result.problem, "result")
        yield {"result_schema": step.result.schema}

    def _code(self, settings: dict[str, Any]) -> Iterator[dict[str, Any] | Problem]:
        step = self.step
        shape = step.shape
        if shape is None:
            return  # there is a problem already
        each: Each | None = None
        if step.each is not None:
            for found in self._each(shape):
                each = found if isinstance(found, Each) else each
                yield {"each": found} if isinstance(found, Each) else found
            yield from self._problems_of_limit()
            self._depend_on([each.source] if each is not None else [])
        names_of_each = step.each if isinstance(step.each, Mapping) else {}
        parameter = each.parameter if each is not None else next(iter(names_of_each), None)
        yield from self._problems_of_key({*settings.get("arguments", {}), *([parameter] if parameter else [])})
        binder = Binder(step, shape, self.scope, settings.get("arguments", {}), parameter)
        bound = list(binder.bind())
        self._depend_on(binder.sources)
        yield from (found for found in bound if isinstance(found, Problem))
        yield {
            **({"action": step.job.action, "code": code_name(step.job.code)} if step.job is not None else {}),
            "result_schema": _schema_of(step.returns),
            "returns": shape.unresolved_return or ("" if step.returns is UNKNOWN else type_name(step.returns)),
            "inputs": tuple(found for found in bound if isinstance(found, Input)),
        }

    def _each(self, shape: Shape) -> Iterator[Each | Problem]:
        step = self.step
        if not isinstance(step.each, Mapping) or len(step.each) != 1:
            yield self.step.problem(
                f"each is {shown(step.each)}: expected one parameter and the path of a list, as in "
                "each={'line': 'context.lines'}",
                "each",
            )
            return
        ((name, text),) = step.each.items()
        if name not in shape.names and not shape.takes_others:
            hint = suggestion(str(name), shape.names, "parameters")
            yield self.step.problem(f"each: the code has no parameter {name!r}; {hint}", "each")
            return
        for found in self.scope.read(text, f"each.{name}", step.name):
            if isinstance(found, str):
                yield self.step.problem(found, "each")
            else:
                yield from self._problems_of_elements(shape, name, found)
                yield Each(name, found)

    def _problems_of_elements(self, shape: Shape, name: str, path: Path) -> Iterator[Problem]:
        step = self.step
        if path.step is not None and step.trigger in ("any_concluded", "all_ended"):
            yield self.step.problem(
                f"each: with trigger {step.trigger!r} {path.step!r} may have no result; use 'all_concluded'",
                "each",
            )
        hint = next((each.hint for each in shape.parameters if each.name == name), UNKNOWN)
        source = without_none(self.scope.type_of(path))
        element = element_of(source)
        if is_outcome(hint):
            yield self.step.problem(f"parameter {name!r} takes an element, which has no Outcome", "each")
        elif element is None and source is not UNKNOWN and not can_take(list[Any], source):
            yield self.step.problem(f"each.{name}: {str(path)!r} is {type_name(source)}, not a list", "each")
        elif element is not None and not can_take(hint, element):
            message = f"parameter {name!r} is annotated {type_name(hint)}, but the elements are {type_name(element)}"
            yield self.step.problem(message, "each")

    def _problems_of_limit(self) -> Iterator[Problem]:
        job = self.step.job
        if job is None:
            return
        if self.step.settings.get("limit") is not None and job.settings.get("concurrency_key") is not None:
            yield self.step.problem(
                f"limit and the concurrency key of the job {job.action!r} exclude each other; remove one of them",
                "limit",
            )

    def _problems_of_key(self, known: set[str]) -> Iterator[Problem]:
        """A step is created before its inputs are known: its key can depend on constants and on its element alone."""
        key = None if self.step.job is None else self.step.job.settings.get("concurrency_key")
        if not callable(key):
            return
        try:
            inspect.signature(key).bind(**dict.fromkeys(known))
        except TypeError as error:
            yield self.step.problem(
                "its concurrency key is a function of arguments that are not known when the step is created "
                f"({error}); use a constant key, or let it depend on constants and the element of a map alone",
                "handler",
            )


def _schema_of(returns: Any) -> Any:
    """The JSON schema of a result; None if nothing is known about it."""
    if returns is UNKNOWN or decodable(returns) is Any:
        return None
    try:
        return schemas.schema_of(returns)
    except Exception:  # whatever a model's own schema raises: results by hand are then not checked
        return None


_DEFAULTS: Final = {
    each.name: each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory()
    for each in msgspec.structs.fields(StepTemplate)
}
