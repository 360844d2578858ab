"""The jobs of an app, by name. An action in a row is looked up here and nowhere else: nothing is imported from data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeVar

from stepwell.enqueue.draft import NewStep
from stepwell.model.errors import InvalidStep, StepwellError, UnknownAction
from stepwell.model.step import Step, StepRef

P = ParamSpec("P")
R = TypeVar("R")

_current_step: Final[ContextVar[Step]] = ContextVar("stepwell_step")


def current_step() -> Step:
    """The step that the calling code runs for, as it was when it was claimed."""
    try:
        return _current_step.get()
    except LookupError:
        raise StepwellError("current_step() is for code that runs as a step") from None


@dataclass(frozen=True, slots=True)
class JobDefinition(Generic[P, R]):
    """A registered function. Calling it runs it directly; `.enqueue` makes a step of it, typed like the function."""

    action: str
    function: Callable[P, R]
    settings: dict[str, Any]
    create: Callable[[NewStep], StepRef]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> StepRef:
        """Create a step that will call the function with these arguments."""
        return self.create(self.draft(*args, **kwargs))

    def draft(self, *args: P.args, **kwargs: P.kwargs) -> NewStep:
        """The same step, not created yet: to be given a place in a tree or a graph with others."""
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidStep(f"{self.action}: {error}; nothing was written") from error
        arguments = dict(bound.arguments)
        for parameter in bound.signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                arguments |= arguments.pop(parameter.name, {})
        return NewStep(action=self.action, arguments=arguments, **self.settings)

    def options(self, **settings: Any) -> JobDefinition[P, R]:
        """The same job with other settings: `fetch.options(parent=step, delay=30).enqueue("BTC")`."""
        return JobDefinition(self.action, self.function, {**self.settings, **settings}, self.create)


class Registry:
    """What an app can run."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobDefinition[..., Any]] = {}

    def add(self, job: JobDefinition[..., Any]) -> None:
        if job.action in self._jobs:
            raise StepwellError(f"the action {job.action!r} is already registered with this app")
        for parameter in inspect.signature(job.function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
                raise StepwellError(
                    f"{job.action}({parameter}): arguments are stored by name, so every parameter needs one"
                )
        self._jobs[job.action] = job

    def actions(self) -> frozenset[str]:
        return frozenset(self._jobs)

    def call(self, step: Step) -> Any:
        """Run the code of a step's action with its arguments."""
        job = self._jobs.get(step.action)
        if job is None:
            raise UnknownAction(f"no job {step.action!r} is registered with this app")
        token = _current_step.set(step)
        try:
            return job.function(**step.arguments)
        finally:
            _current_step.reset(token)
