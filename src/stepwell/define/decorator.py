"""`app.job`: the decorator that defines jobs, with and without settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from stepwell.define.backoff import Backoff
from stepwell.define.definition import JobDefinition
from stepwell.define.policy import MAX_NOT_COMPLETED, Policy, RetryRule
from stepwell.define.registration import Computes, ComputesLater, Registration
from stepwell.model.errors import StepwellError
from stepwell.share.strategy import DEFAULT_WEIGHT, Weight

if TYPE_CHECKING:
    from stepwell.app import Stepwell

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class JobDecorator:
    """`app.job`: registers a function, a coroutine function or a `Job` class as the code of an action.

    The action is the name of the code unless `name` is given. `retries` is the number of runs after the first;
    `retry_on` selects the errors to retry (types, or a function of the error); `backoff` is a number of seconds, a list
    of them, or a function of the number of the retry (and of the error); `weight` is its share of the slots where a
    strategy divides them; `max_running` limits how many of its steps run at once over all workers; `aliases` are former
    names: steps that have one of them still run; `settings` are default fields of `NewStep` for every step of the job:
    queue, timeout, … (`concurrency_key` may be a template of the arguments, like "customer:{customer}", or a function
    of them). Without settings, `@app.job` is enough.
    """

    app: Stepwell

    @overload
    def __call__(self, code: Callable[P, ComputesLater[R]], /) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, code: Callable[P, Computes[R]], /) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, code: Callable[P, Awaitable[R]], /) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, code: Callable[P, R], /) -> JobDefinition[P, R]: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = None,
        retries: int = 3,
        retry_on: RetryRule = (Exception,),
        backoff: Backoff | None = None,
        max_not_completed: int = MAX_NOT_COMPLETED,
        weight: Weight = DEFAULT_WEIGHT,
        max_running: int | None = None,
        aliases: Collection[str] = (),
        **settings: Any,
    ) -> Registration: ...
    def __call__(
        self,
        code: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        retries: int = 3,
        retry_on: RetryRule = (Exception,),
        backoff: Backoff | None = None,
        max_not_completed: int = MAX_NOT_COMPLETED,
        weight: Weight = DEFAULT_WEIGHT,
        max_running: int | None = None,
        aliases: Collection[str] = (),
        **settings: Any,
    ) -> Registration | JobDefinition[Any, Any]:
        if isinstance(code, str):
            raise StepwellError(f"app.job({code!r}): pass the name as a keyword, app.job(name={code!r})")
        policy = Policy(retry_on, backoff, max_not_completed, weight, max_running)
        register = Registration(self.app, name, {"retries": retries, **settings}, policy, aliases)
        return register if code is None else register(code)
