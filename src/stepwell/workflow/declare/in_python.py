"""Steps as Python declares them, by a function and keywords, become declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepwell.define.definition import JobDefinition
from stepwell.model.step import StepKind, TriggerRule
from stepwell.workflow.declare.context import context_of
from stepwell.workflow.declare.declaration import Declaration, shape_of
from stepwell.workflow.declare.options import GRAPH, KEYWORDS
from stepwell.workflow.declare.problems import Problem
from stepwell.workflow.declare.registering import code_of, registered_job
from stepwell.workflow.declare.settings import inherited_settings
from stepwell.workflow.declare.words import suggestion
from stepwell.workflow.steps import CodeStep, DeclaredStep, Gate
from stepwell.workflow.template import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from stepwell.workflow.workflow import Workflow


def declared_code(
    workflow: Workflow[Any], code: Callable[..., Any], options: Mapping[str, Any]
) -> tuple[Declaration, CodeStep[Any, Any, Any]]:
    """A step that runs code, which is registered as a job if it is not one."""
    code = code_of(code)
    job = code if isinstance(code, JobDefinition) else None
    own = job.code if job is not None else code
    name = str(options.get("name") or getattr(own, "__name__", ""))
    problems: list[Problem] = []
    for unknown in options.keys() - KEYWORDS:
        problems.append(Problem(f"unknown keyword {unknown!r}; {suggestion(unknown, KEYWORDS, 'keywords')}", name))
    settings = {key: options[key] for key in KEYWORDS if key in options and key not in GRAPH}
    if job is not None:
        settings = {**inherited_settings(job), **settings}
        if options.get("action") not in (None, job.action):
            problems.append(Problem(f"the job is registered as {job.action!r}; omit action", name, "action"))
    action = job.action if job is not None else options.get("action") or _default_action(workflow, name)
    for found in registered_job(workflow.app, own, action, settings, replace=workflow.replace):
        if isinstance(found, str):
            problems.append(Problem(found, name, "handler"))
        else:
            job = found
    has_bad_code = any(problem.key == "handler" for problem in problems)
    kind: StepKind = "job" if options.get("each") is None else "map"
    step: CodeStep[Any, Any, Any] = CodeStep(workflow, name, code)
    names = _Names(step, problems)
    declaration = Declaration(
        name=name,
        kind=kind,
        job=job,
        shape=None if has_bad_code else shape_of(own),
        inputs=names.of_mapping(options.get("inputs", {})),
        after=names.of_sequence(options.get("after", ())),
        when=options.get("when", {}),
        each=names.of_mapping(options.get("each")),
        trigger=options.get("trigger", "all_concluded"),
        settings=settings,
        problems=tuple(problems),
    )
    return declaration, step


def declared_gate(
    gate: Gate[Any],
    *,
    result: Any,
    after: Sequence[Any],
    when: Mapping[str, Any] | None,
    trigger: TriggerRule,
    settings: Mapping[str, Any],
) -> Declaration:
    problems: list[Problem] = []
    return Declaration(
        name=gate.name,
        kind="gate",
        result=context_of(result, "result"),
        after=_Names(gate, problems).of_sequence(after),
        when=when or {},
        trigger=trigger,
        settings=settings,
        problems=tuple(problems),
    )


def _default_action(workflow: Workflow[Any], step: str) -> str:
    namespace, name = workflow.header.namespace, workflow.header.name
    parts = (name, step) if namespace == DEFAULT_NAMESPACE else (namespace, name, step)
    return ".".join(map(str, parts))


class _Names:
    """The names of other steps that a step is given, as names or as objects."""

    def __init__(self, step: DeclaredStep[Any], problems: list[Problem]) -> None:
        self._step = step
        self._problems = problems

    def of_sequence(self, sources: Any) -> Any:
        if isinstance(sources, DeclaredStep):
            sources = (sources,)
        if isinstance(sources, str) or not isinstance(sources, Sequence | set | frozenset):
            return sources
        return tuple(map(self._of, sources))

    def of_mapping(self, sources: Any) -> Any:
        if not isinstance(sources, Mapping):
            return sources
        return {name: self._of(source) for name, source in sources.items()}

    def _of(self, source: Any) -> Any:
        if not isinstance(source, DeclaredStep):
            return source
        workflow = self._step.workflow
        if source.workflow is not workflow:
            message = f"step {source.name!r} belongs to {source.workflow}; name a step of {workflow}"
            self._problems.append(Problem(message, self._step.name))
        return source.name
