"""Registering a job: checks its settings and its code, and adds it to the app."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from stepwell.define.definition import JobDefinition, known_settings
from stepwell.define.drafts import NewStep, problems
from stepwell.define.job import Job, hooks_of
from stepwell.define.policy import Policy
from stepwell.define.signature import Signature, is_coroutine
from stepwell.model.errors import StepwellError

if TYPE_CHECKING:
    from stepwell.app import Stepwell

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Computes(Protocol[R_co]):
    """A class whose `compute` returns the result."""

    def compute(self) -> R_co: ...


class ComputesLater(Protocol[R_co]):
    """A class whose `compute` returns the result when awaited."""

    def compute(self) -> Awaitable[R_co]: ...


@dataclass(frozen=True, slots=True)
class Registration:
    """The decorator that `app.job(…)` returns."""

    app: Stepwell
    name: str | None
    settings: dict[str, Any]
    policy: Policy

    @overload
    def __call__(self, code: Callable[P, ComputesLater[R]]) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, code: Callable[P, Computes[R]]) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, code: Callable[P, Awaitable[R]]) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, code: Callable[P, R]) -> JobDefinition[P, R]: ...
    def __call__(self, code: Callable[..., Any]) -> JobDefinition[Any, Any]:
        action = self._action_of(code)
        settings = known_settings(action, self.settings, ("name", *Policy.__slots__))
        if found := [*self.policy.problems(), *_problems_of(action, settings)]:
            raise StepwellError(f"job {action!r} cannot be defined: {'; '.join(found)}")
        compute = _compute_of(action, code)
        hooks, is_async = frozenset[str](), is_coroutine(code)
        if isinstance(code, type):
            hooks = hooks_of(code)
            is_async = any(inspect.iscoroutinefunction(getattr(code, name)) for name in (*hooks, "compute"))
        job: JobDefinition[Any, Any] = JobDefinition(
            action, code, settings, self.policy, self.app, Signature(action, code, compute), hooks, is_async
        )
        self.app.jobs.add(job)
        return job

    def _action_of(self, code: Callable[..., Any]) -> str:
        if not callable(code):
            raise StepwellError(
                f"{code!r} cannot run as a step: a job is a function or a class, as in app.job()(fetch)"
            )
        action = self.name or str(getattr(code, "__name__", ""))
        if not action:
            raise StepwellError(f"{code!r} has no name: pass one, app.job(name=…)")
        return action


def _compute_of(action: str, code: Callable[..., Any]) -> Callable[..., Any]:
    """The callable that returns the step's result."""
    compute = code
    if isinstance(code, type):
        if not issubclass(code, Job):
            raise StepwellError(f"{action}: a job class must be a subclass of stepwell.Job")
        if code.compute is Job.compute:
            raise StepwellError(f"{action}: the class has no compute method; define one")
        compute = code.compute
    if inspect.isgeneratorfunction(compute) or inspect.isasyncgenfunction(compute):
        raise StepwellError(f"{action}: a job cannot be a generator; collect what it yields and return it")
    return compute


def _problems_of(action: str, settings: dict[str, Any]) -> list[str]:
    """The problems with the settings that every step of a job would have."""
    plain = {name: value for name, value in settings.items() if name != "concurrency_key" or not callable(value)}
    return [problem.replace("max_retries", "retries") for problem in problems(NewStep(action=action, **plain))]
