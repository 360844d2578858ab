"""The keywords of `@workflow.step`, and the decorators that it returns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias, TypedDict, TypeVar, overload

from stepwell.define.registration import Computes, ComputesLater
from stepwell.model.step import Priority, TriggerRule
from stepwell.workflow.steps import CodeStep, DeclaredStep

if TYPE_CHECKING:
    from stepwell.workflow.workflow import Workflow

P = ParamSpec("P")
R = TypeVar("R")

Source: TypeAlias = str | DeclaredStep[Any]  # a path, or a whole step
Duration: TypeAlias = float | timedelta | str  # seconds, or text like "1h30m"


class StepOptions(TypedDict, total=False):
    """The keywords of `@workflow.step`, except `each`."""

    name: str
    action: str
    inputs: Mapping[str, Source]
    arguments: Mapping[str, Any]
    after: Sequence[Source]
    when: Mapping[str, Any]
    trigger: TriggerRule
    retry_limit: int
    retryable: bool
    skippable: bool
    timeout: Duration
    cooldown: Duration
    delay: Duration
    queue: str
    priority: Priority
    limit: int


class StepDecorator:
    """What `workflow.step(…)` returns."""

    def __init__(self, workflow: Workflow[Any], options: Mapping[str, Any]) -> None:
        self._workflow = workflow
        self._options = options

    @overload
    def __call__(self, code: Callable[P, ComputesLater[R]], /) -> CodeStep[P, ComputesLater[R], R]: ...
    @overload
    def __call__(self, code: Callable[P, Computes[R]], /) -> CodeStep[P, Computes[R], R]: ...
    @overload
    def __call__(self, code: Callable[P, Coroutine[Any, Any, R]], /) -> CodeStep[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, code: Callable[P, R], /) -> CodeStep[P, R, R]: ...
    def __call__(self, code: Callable[..., Any], /) -> CodeStep[Any, Any, Any]:
        return self._workflow.add_step(code, self._options)


class MapDecorator:
    """What `workflow.step(each=…)` returns: the result of the step is a list."""

    def __init__(self, workflow: Workflow[Any], options: Mapping[str, Any]) -> None:
        self._workflow = workflow
        self._options = options

    @overload
    def __call__(self, code: Callable[P, ComputesLater[R]], /) -> CodeStep[P, ComputesLater[R], list[R]]: ...
    @overload
    def __call__(self, code: Callable[P, Computes[R]], /) -> CodeStep[P, Computes[R], list[R]]: ...
    @overload
    def __call__(
        self, code: Callable[P, Coroutine[Any, Any, R]], /
    ) -> CodeStep[P, Coroutine[Any, Any, R], list[R]]: ...
    @overload
    def __call__(self, code: Callable[P, R], /) -> CodeStep[P, R, list[R]]: ...
    def __call__(self, code: Callable[..., Any], /) -> CodeStep[Any, Any, Any]:
        return self._workflow.add_step(code, self._options)


KEYWORDS: Final = (*StepOptions.__annotations__, "each")
GRAPH: Final = ("name", "action", "inputs", "after", "when", "trigger", "each")  # the others are settings
