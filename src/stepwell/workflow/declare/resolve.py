"""From declarations to a template: every check of a definition, with all problems at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stepwell.workflow.declare.context import Context
from stepwell.workflow.declare.cycles import cycles
from stepwell.workflow.declare.declaration import Declaration
from stepwell.workflow.declare.paths import Scope
from stepwell.workflow.declare.problems import Problem
from stepwell.workflow.declare.step_resolver import StepResolver
from stepwell.workflow.declare.words import problem_of_name, problem_of_version, shown
from stepwell.workflow.template import CONTEXT, Template


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a workflow is called, and what its requests carry."""

    namespace: Any
    name: Any
    version: Any
    description: Any = ""
    context: Context


def resolve(header: Header, steps: Sequence[Declaration]) -> tuple[Template | None, list[Problem]]:
    """The template, or the problems that prevent it."""
    problems = [*_problems_of_header(header), *_problems_of_names(header, steps)]
    by_name: dict[str, Declaration] = {}
    for step in steps:
        by_name.setdefault(str(step.name), step)
    scope = Scope(header.context, by_name)
    resolvers = [StepResolver(step, scope) for step in steps]
    built = [resolver.resolve() for resolver in resolvers]
    problems += [problem for resolver in resolvers for problem in resolver.problems]
    for cycle in cycles({str(resolver.step.name): resolver.upstream for resolver in resolvers}):
        message = f"the steps depend on each other: {' -> '.join(cycle)}; remove one of these dependencies"
        problems.append(by_name[cycle[0]].problem(message))
    if problems:
        return None, problems
    template = Template(
        namespace=header.namespace,
        name=header.name,
        version=header.version,
        description=header.description,
        context_schema=header.context.schema,
        steps=tuple(step for step in built if step is not None),
    )
    return template, []


def _problems_of_header(header: Header) -> Iterator[Problem]:
    for key in ("namespace", "name"):
        if (problem := problem_of_name(getattr(header, key))) is not None:
            yield Problem(f"{key}: {problem}", key=key)
    if (problem := problem_of_version(header.version)) is not None:
        yield Problem(problem, key="version")
    if not isinstance(header.description, str):
        yield Problem(f"description is {shown(header.description)}: expected text", key="description")
    if header.context.problem is not None:
        yield Problem(header.context.problem, key="context")


def _problems_of_names(header: Header, steps: Sequence[Declaration]) -> Iterator[Problem]:
    fields, seen = header.context.fields or {}, set()
    for step in steps:
        name = str(step.name)
        if (problem := problem_of_name(step.name)) is not None:
            yield step.problem(problem, "name")
        elif name == CONTEXT:
            yield step.problem("'context' is reserved for the context of the workflow; choose another name", "name")
        elif name in seen:
            yield step.problem("another step has this name; names must be distinct", "name")
        elif name in fields:
            yield step.problem(
                "the context has a field of this name: a parameter would be ambiguous; rename one of them", "name"
            )
        seen.add(name)
