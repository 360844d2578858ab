"""Registering a job: checks its settings and its code, and adds it to the app."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from stepwell.define.definition import JobDefinition, known_settings
from stepwell.define.drafts import MAX_NAME, ResolvedStep, is_name, problems
from stepwell.define.job import Job, hooks_of
from stepwell.define.keys import KeyTemplate
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
    aliases: Collection[str] = ()

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
        settings = known_settings(action, self.settings, ("name", "aliases", *Policy.__slots__))
        if found := [*self.policy.problems(), *_problems_of(action, settings), *_problems_of_aliases(self.aliases)]:
            raise StepwellError(f"job {action!r} cannot be defined: {'; '.join(found)}")
        compute = _compute_of(action, code)
        signature = Signature(action, code, compute)
        settings = _with_key_template(action, settings, signature)
        hooks, is_async = frozenset[str](), is_coroutine(code)
        if isinstance(code, type):
            hooks = hooks_of(code)
            is_async = any(inspect.iscoroutinefunction(getattr(code, name)) for name in (*hooks, "compute"))
        job: JobDefinition[Any, Any] = JobDefinition(
            action, code, settings, self.policy, self.app, signature, hooks, is_async, tuple(self.aliases)
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


def _with_key_template(action: str, settings: dict[str, Any], signature: Signature) -> dict[str, Any]:
    """The settings with a concurrency key that names arguments in braces as a function of them."""
    key = settings.get("concurrency_key")
    if not isinstance(key, str) or not {"{", "}"}.intersection(key):
        return settings
    template = KeyTemplate.of(key)
    problem = template if isinstance(template, str) else signature.problem_of_required(template.names)
    if problem is not None:
        raise StepwellError(f"job {action!r} cannot be defined: concurrency_key is {key!r}: {problem}")
    return {**settings, "concurrency_key": template}


def _problems_of_aliases(aliases: Any) -> list[str]:
    if isinstance(aliases, str) or not isinstance(aliases, Collection):
        return [f"aliases is {aliases!r}, not a list of names"]
    return [f"alias {alias!r} must be 1 to {MAX_NAME} printable characters" for alias in aliases if not is_name(alias)]


def _problems_of(action: str, settings: dict[str, Any]) -> list[str]:
    """The problems with the settings that every step of a job would have."""
    plain = {name: value for name, value in settings.items() if name != "concurrency_key" or not callable(value)}
    return [problem.replace("max_retries", "retries") for problem in problems(ResolvedStep(action=action, **plain))]
