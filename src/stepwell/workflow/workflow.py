"""A workflow as it is declared in Python; YAML makes the same object."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from stepwell.define.definition import JobDefinition
from stepwell.define.registration import Computes, ComputesLater
from stepwell.model import codec
from stepwell.model.errors import StepwellError, WorkflowDefinitionError
from stepwell.model.step import StepKind, TriggerRule
from stepwell.workflow.declare.annotations import UNKNOWN
from stepwell.workflow.declare.context import context_of
from stepwell.workflow.declare.declaration import Declaration, shape_of
from stepwell.workflow.declare.environments import Environments, queues_of
from stepwell.workflow.declare.options import (
    GRAPH,
    KEYWORDS,
    Duration,
    MapDecorator,
    Source,
    StepDecorator,
    StepOptions,
)
from stepwell.workflow.declare.problems import Problem
from stepwell.workflow.declare.registering import code_of, registered_job
from stepwell.workflow.declare.resolve import Header, resolve
from stepwell.workflow.declare.settings import inherited_settings
from stepwell.workflow.declare.words import suggestion
from stepwell.workflow.request import RequestOptions, identity_of, make_request
from stepwell.workflow.run import Run
from stepwell.workflow.start import Start
from stepwell.workflow.steps import CodeStep, DeclaredStep, Gate
from stepwell.workflow.template import DEFAULT_NAMESPACE, Template

if TYPE_CHECKING:
    from stepwell.app import Stepwell
    from stepwell.workflow.workflows import Workflows

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class Workflow(Generic[C]):
    """A workflow with its steps. It is checked as a whole, by `check` or by its first use.

    >>> from stepwell import Stepwell
    >>> app = Stepwell("sqlite://")
    >>> greet = app.workflows("demo").workflow("greet", context={"properties": {"who": {"default": "you"}}})
    >>> @greet.step(retry_limit=5)
    ... def hello(who: str) -> str:
    ...     return f"hello {who}"
    >>> @greet.step
    ... def shout(hello: str) -> str:
    ...     return hello.upper()
    >>> shout("hello")
    'HELLO'
    >>> [(step.name, step.action, step.upstream) for step in greet.check()]
    [('hello', 'demo.greet.hello', ()), ('shout', 'demo.greet.shout', ('hello',))]
    """

    def __init__(
        self,
        workflows: Workflows,
        header: Header,
        *,
        replace: bool = False,
        environments: Any = None,
        show: Callable[[Problem], str] | None = None,
    ) -> None:
        self._workflows = workflows
        self._header = header
        self._show = show or (lambda problem: f"{self}: {problem.text()}")
        self._declarations: list[Declaration] = []
        self._steps: dict[str, DeclaredStep[Any]] = {}
        self._declared: Template | None = None
        self._environments = Environments(environments)
        self.replace = replace

    @property
    def app(self) -> Stepwell:
        return self._workflows.app

    @property
    def key(self) -> tuple[str, str, str]:
        """Namespace, name and version."""
        return str(self._header.namespace), str(self._header.name), str(self._header.version)

    def __str__(self) -> str:
        return f"{self._header.namespace}.{self._header.name} version {self._header.version}"

    def __getitem__(self, name: str) -> DeclaredStep[Any]:
        """A step by its name."""
        try:
            return self._steps[name]
        except KeyError:
            raise KeyError(f"{self}: no step {name!r}; {suggestion(name, self._steps, 'steps')}") from None

    # declare ----------------------------------------------------------------------------------------------

    @overload
    def step(self, code: Callable[P, ComputesLater[R]], /) -> CodeStep[P, ComputesLater[R], R]: ...
    @overload
    def step(self, code: Callable[P, Computes[R]], /) -> CodeStep[P, Computes[R], R]: ...
    @overload
    def step(self, code: Callable[P, Coroutine[Any, Any, R]], /) -> CodeStep[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def step(self, code: Callable[P, R], /) -> CodeStep[P, R, R]: ...
    @overload
    def step(
        self, code: None = None, /, *, each: Mapping[str, Source], **options: Unpack[StepOptions]
    ) -> MapDecorator: ...
    @overload
    def step(self, code: None = None, /, **options: Unpack[StepOptions]) -> StepDecorator: ...
    def step(self, code: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a step that runs a function, a coroutine function, a `Job` class or a registered job.

        Its parameters name what they take: the context, a field of it, or an upstream step. `inputs` names a source
        explicitly, `arguments` are constants, `each` makes a map. docs/workflows.md explains every keyword.
        """
        if code is not None:
            return self.add_step(code, options)
        return StepDecorator(self, options) if options.get("each") is None else MapDecorator(self, options)

    @overload
    def gate(
        self,
        name: str,
        *,
        result: type[R],
        after: Sequence[Source] = (),
        when: Mapping[str, Any] | None = None,
        trigger: TriggerRule = "all_concluded",
        expires: Duration | None = None,
        skippable: bool = False,
    ) -> Gate[R]: ...
    @overload
    def gate(
        self,
        name: str,
        *,
        result: Mapping[str, Any] | None = None,
        after: Sequence[Source] = (),
        when: Mapping[str, Any] | None = None,
        trigger: TriggerRule = "all_concluded",
        expires: Duration | None = None,
        skippable: bool = False,
    ) -> Gate[Any]: ...
    def gate(
        self,
        name: str,
        *,
        result: Any = None,
        after: Sequence[Source] = (),
        when: Mapping[str, Any] | None = None,
        trigger: TriggerRule = "all_concluded",
        expires: Duration | None = None,
        skippable: bool = False,
    ) -> Gate[Any]:
        """Declare a step that waits for an answer from a person or a program; `result` is the type of the answer."""
        problems: list[Problem] = []
        gate: Gate[Any] = Gate(self, name)
        declaration = Declaration(
            name=name,
            kind="gate",
            result=context_of(result, "result"),
            after=self._names(after, name, problems),
            when=when or {},
            trigger=trigger,
            settings={"skippable": skippable, **({} if expires is None else {"expires": expires})},
            problems=tuple(problems),
        )
        self.add(declaration, gate)
        return gate

    def add_step(self, code: Callable[..., Any], options: Mapping[str, Any]) -> CodeStep[Any, Any, Any]:
        """What `step` does, for options in a mapping."""
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
        action = job.action if job is not None else options.get("action") or self._default_action(name)
        for found in registered_job(self._workflows.app, own, action, settings, replace=self.replace):
            if isinstance(found, str):
                problems.append(Problem(found, name, "handler"))
            else:
                job = found
        has_bad_code = any(problem.key == "handler" for problem in problems)
        kind: StepKind = "job" if options.get("each") is None else "map"
        step: CodeStep[Any, Any, Any] = CodeStep(self, name, code)
        declaration = Declaration(
            name=name,
            kind=kind,
            job=job,
            shape=None if has_bad_code else shape_of(own),
            inputs=self._paths(options.get("inputs", {}), name, problems),
            after=self._names(options.get("after", ()), name, problems),
            when=options.get("when", {}),
            each=self._paths(options.get("each"), name, problems),
            trigger=options.get("trigger", "all_concluded"),
            settings=settings,
            problems=tuple(problems),
        )
        self.add(declaration, step)
        return step

    def add(self, declaration: Declaration, step: DeclaredStep[Any]) -> None:
        """Add a step however it was declared."""
        if self._declared is not None:
            raise StepwellError(
                f"{self} is already in use, so step {declaration.name!r} cannot be added; declare all steps of a "
                "workflow before it is checked, exported or started"
            )
        self._declarations.append(declaration)
        self._steps.setdefault(str(declaration.name), step)

    def _default_action(self, step: str) -> str:
        namespace = self._header.namespace
        parts = (self._header.name, step) if namespace == DEFAULT_NAMESPACE else (namespace, self._header.name, step)
        return ".".join(map(str, parts))

    def _name_of(self, source: Any, step: str, problems: list[Problem]) -> Any:
        """The name of a step that was given as an object."""
        if not isinstance(source, DeclaredStep):
            return source
        if source.workflow is not self:
            problems.append(Problem(f"step {source.name!r} belongs to {source.workflow}; name a step of {self}", step))
        return source.name

    def _names(self, sources: Any, step: str, problems: list[Problem]) -> Any:
        if isinstance(sources, DeclaredStep):
            sources = (sources,)
        if isinstance(sources, str) or not isinstance(sources, Sequence | set | frozenset):
            return sources
        return tuple(self._name_of(source, step, problems) for source in sources)

    def _paths(self, sources: Any, step: str, problems: list[Problem]) -> Any:
        if not isinstance(sources, Mapping):
            return sources
        return {name: self._name_of(source, step, problems) for name, source in sources.items()}

    # use --------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Everything that is wrong with it, one line each."""
        if self._declared is not None:
            return []
        template, found = resolve(self._header, self._declarations)
        environments = self._environments.problems(self._header, self._declarations)
        if template is None or environments:
            return list(dict.fromkeys(map(self._show, [*found, *environments])))
        self._declared = self._environments.declared_in(template)
        self._workflows.app.queues.add(queues_of(self._declared))
        return []

    def check(self) -> Template:
        """The template, before the overrides of any environment; raises `WorkflowDefinitionError` with every problem.

        Nothing can be added afterwards. It is called by the first use: start, export, or the start of a worker.
        """
        if (problems := self.problems()) or self._declared is None:
            raise WorkflowDefinitionError(*problems)
        return self._declared

    def template(self, environment: str | None = None) -> Template:
        """The template as it runs in an environment: the one of this process, if none is named."""
        declared = self.check()
        name = self._workflows.environment if environment is None else environment
        return self._environments.apply(name, declared, self._header, self._declarations)

    def start(
        self, context: C | Mapping[str, Any] | None = None, *, connection: Any = None, **request: Unpack[RequestOptions]
    ) -> Run:
        """Start it: `context` is checked and completed with defaults.

        `bypass_steps` are skippable steps that are created Skipped. By default, every request is a workflow of its own
        (`identity="unique"`); with `identity="hash"`, the same context and bypassed steps are a conflict; with `key`,
        the same key is.
        """
        declared = self._workflows.registered(self)
        template = declared.template()
        stored = self._header.context.checked(context, str(self))
        checked = make_request(template, stored, request)
        app = self._workflows.app
        start = Start(
            context=codec.encode(stored, "context"),
            initiator=checked.initiator,
            source_system=checked.source_system,
            reason=checked.reason,
            tags=checked.tags,
            bypass_steps=checked.bypass_steps,
            identity=identity_of(template, checked),
            content_hash=declared.check().content_hash(),
        )
        starter = app.workflow_engine.starter
        return Run(app, starter.start(template, start, declared.check(), connection=connection, replace=self.replace))

    def result_type(self, name: str) -> Any:
        """The annotated type of the result of a step; that of a map is a list."""
        found = next((each for each in self._declarations if each.name == name), None)
        if found is None or found.returns is UNKNOWN or found.returns is None:
            return Any
        returns: Any = found.returns
        return list[returns] if found.kind == "map" else returns

    def export(self) -> str:
        """Its YAML, from which `app.workflows.load_yaml` makes the same template."""
        return self._workflows.export(self.check())
