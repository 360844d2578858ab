"""A workflow as it is declared in Python; YAML makes the same object."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from stepwell.define.registration import Computes, ComputesLater
from stepwell.model import codec
from stepwell.model.errors import StepwellError, WorkflowDefinitionError
from stepwell.model.step import TriggerRule
from stepwell.workflow.declare.annotations import UNKNOWN
from stepwell.workflow.declare.declaration import Declaration
from stepwell.workflow.declare.environments import Environments, queues_of
from stepwell.workflow.declare.in_python import declared_code, declared_gate
from stepwell.workflow.declare.options import (
    Duration,
    MapDecorator,
    Source,
    StepDecorator,
    StepOptions,
)
from stepwell.workflow.declare.problems import Problem
from stepwell.workflow.declare.resolve import Header, resolve
from stepwell.workflow.declare.words import suggestion
from stepwell.workflow.live.start import Start
from stepwell.workflow.request import RequestOptions, identity_of, make_request
from stepwell.workflow.run import Run
from stepwell.workflow.steps import CodeStep, DeclaredStep, Gate
from stepwell.workflow.template import Template

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
    def header(self) -> Header:
        """What is said about it as a whole."""
        return self._header

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
        settings = {"skippable": skippable, **({} if expires is None else {"expires": expires})}
        gate: Gate[Any] = Gate(self, name)
        self.add(declared_gate(gate, result=result, after=after, when=when, trigger=trigger, settings=settings), gate)
        return gate

    def add_step(self, code: Callable[..., Any], options: Mapping[str, Any]) -> CodeStep[Any, Any, Any]:
        """What `step` does, for options in a mapping."""
        declaration, step = declared_code(self, code, options)
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
        if environment is None and self._environments:
            environment = self._workflows.environment
        return self._environments.apply(environment, declared, self._header, self._declarations)

    def start(
        self, context: C | Mapping[str, Any] | None = None, *, connection: Any = None, **request: Unpack[RequestOptions]
    ) -> Run:
        """Start it: `context` is checked and completed with defaults.

        `bypass_steps` are skippable steps that are created Skipped. By default, every request is a workflow of its own
        (`identity="unique"`); with `identity="hash"`, the same context and bypassed steps are a conflict; with `key`,
        the same key is. With `who`, a person starts it by hand: it is recorded as an operation, with the `reason`.
        """
        template, start = self.prepared(context, request)
        starter = self._workflows.app.workflow_engine.starter
        declared = self._workflows.registered(self).check()
        workflow_id = starter.start(template, start, declared, connection=connection, replace=self.replace)
        return Run(self._workflows.app, workflow_id)

    def prepared(self, context: C | Mapping[str, Any] | None, request: RequestOptions) -> tuple[Template, Start]:
        """The template and the checked request of a workflow that is about to be started."""
        declared = self._workflows.registered(self)
        template = declared.template()
        stored = self._header.context.checked(context, str(self))
        checked = make_request(template, stored, request)
        return template, Start(
            context=codec.encode(stored, "context"),
            initiator=checked.initiator,
            source_system=checked.source_system,
            reason=checked.reason,
            tags=checked.tags,
            bypass_steps=checked.bypass_steps,
            identity=identity_of(template, checked),
            who=request.get("who"),
            content_hash=declared.check().content_hash(),
        )

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
