"""The jobs of an app, by name. An action in a row is looked up here and nowhere else: nothing is imported from data."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeVar, overload

from msgspec import structs

from stepwell.define.backoff import Backoff, problem_of_backoff
from stepwell.define.drafts import SETTINGS, NewStep, encode_arguments, problems, said
from stepwell.define.job import Job, hooks_of
from stepwell.define.signature import Signature, is_coroutine
from stepwell.model import codec
from stepwell.model.errors import StepwellError, UnknownAction
from stepwell.share.strategies import DEFAULT_WEIGHT, Priority

if TYPE_CHECKING:
    from stepwell.app import Stepwell
    from stepwell.enqueue.handle import Handle

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

MAX_NOT_COMPLETED: Final = 20
RetryRule = type[BaseException] | Collection[type[BaseException]] | Callable[[BaseException], bool]

# Two ways to say the same: who says it in one way does not mean what the job says in the other.
_EXCLUDES: Final = {"delay": "dispatch_after", "dispatch_after": "delay"}


@dataclass(frozen=True, slots=True)
class Policy:
    """What a job wants done about its errors and its unfinished runs."""

    retry_on: RetryRule = (Exception,)
    backoff: Backoff | None = None
    max_not_completed: int = MAX_NOT_COMPLETED
    weight: Priority = DEFAULT_WEIGHT  # its share of the slots, for strategies that divide them
    max_running: int | None = None  # over all workers

    def problems(self) -> Iterator[str]:
        """What is wrong with it, to be said when the job is defined and not when it first fails."""
        if not _is_retry_rule(self.retry_on):
            yield f"retry_on is {self.retry_on!r}, not types of exceptions or a plain function of the error"
        if (problem := problem_of_backoff(self.backoff)) is not None:
            yield problem
        if not _is_count(self.max_not_completed):
            yield f"max_not_completed is {self.max_not_completed!r}, not a number of runs of at least 0"
        if not _is_positive(self.weight):
            yield f"weight is {self.weight!r}, not a number above 0"
        if self.max_running is not None and not _is_count(self.max_running):
            yield f"max_running is {self.max_running!r}, not a whole number of at least 0 (0: none runs), nor None"

    def retries(self, error: BaseException) -> bool:
        """Whether this error is worth a retry.

        >>> Policy(retry_on=OSError).retries(TimeoutError()), Policy(retry_on=[OSError]).retries(KeyError())
        (True, False)
        >>> Policy(retry_on=lambda error: "later" in str(error)).retries(KeyError("come later"))
        True
        """
        rule = self.retry_on
        if not isinstance(rule, type | Collection):
            return bool(rule(error))
        kinds = (rule,) if isinstance(rule, type) else tuple(rule)
        # Beyond Exception there is only what ends programs; a job that raises it has failed like any other.
        return isinstance(error, kinds) or (Exception in kinds and not isinstance(error, Exception))


def _is_retry_rule(rule: Any) -> bool:
    if isinstance(rule, type):
        return issubclass(rule, BaseException)
    if isinstance(rule, Collection):
        return not isinstance(rule, str) and all(
            isinstance(kind, type) and issubclass(kind, BaseException) for kind in rule
        )
    return callable(rule) and not is_coroutine(rule)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _is_positive(value: Any) -> bool:
    """Of the numbers that a strategy can reckon with."""
    try:
        return not isinstance(value, str) and Fraction(value) > 0
    except (TypeError, ValueError, OverflowError):  # no number, or an infinite one
        return False


class JobStep(NewStep, frozen=True, eq=False, kw_only=True):
    """What to create, as a job has drafted it: with the job's settings, and with arguments that it takes."""

    made_of: NewStep | None = None

    @property
    def identity(self) -> int:
        return id(self if self.made_of is None else self.made_of)


class _FunctionJob(Job):
    """A function in the form that the lifecycle runs."""

    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        self._function = function
        self._arguments = arguments

    def compute(self) -> Any:
        return self._function(**self._arguments)


@dataclass(frozen=True, slots=True, eq=False)
class JobDefinition(Generic[P, R]):
    """A registered job. Calling it runs it directly; `.enqueue` makes a step of it, typed like the code itself."""

    action: str
    code: Callable[..., Any]
    settings: dict[str, Any]
    policy: Policy
    app: Stepwell
    signature: Signature
    hooks: frozenset[str]
    is_async: bool

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        made: Any = self.code(*args, **kwargs)
        result: R = made.compute() if isinstance(made, Job) else made
        return result

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Create a step that will run the code with these arguments."""
        from stepwell.enqueue.handle import Handle

        (ref,) = self.app.enqueue_many([self.draft(*args, **kwargs)])
        return Handle(ref, self.app, self.signature)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """The same, without holding up an event loop."""
        return await asyncio.to_thread(self.enqueue, *args, **kwargs)

    def draft(self, *args: P.args, **kwargs: P.kwargs) -> NewStep:
        """The same step, not created yet: to be given a place in a tree or a graph with others."""
        return self._draft_of(self.signature.arguments(args, kwargs))

    def draft_by_name(self, arguments: Any) -> NewStep:
        """The same for arguments that are given as they are stored: by name, in a dict or what becomes one in JSON."""
        if not isinstance(arguments, dict) or not all(isinstance(name, str) for name in arguments):
            arguments = codec.decode(encode_arguments(NewStep(action=self.action, arguments=arguments)))
        return self._draft_of(self.signature.arguments((), arguments))

    def draft_like(self, draft: NewStep) -> NewStep:
        """The same step as this job drafts it; what is left at its default is as the settings of the job say."""
        return structs.replace(self.options(**said(draft)).draft_by_name(draft.arguments), made_of=draft)

    def _draft_of(self, arguments: dict[str, Any]) -> NewStep:
        settings = self.settings
        if callable(settings.get("concurrency_key")):
            settings = {**settings, "concurrency_key": settings["concurrency_key"](**arguments)}
        return JobStep(action=self.action, arguments=arguments, **settings)

    def options(self, **settings: Any) -> JobDefinition[P, R]:
        """The same job with other settings: `fetch.options(parent=step, delay=30).enqueue("BTC")`."""
        given = known_settings(self.action, settings)
        kept = {name: value for name, value in self.settings.items() if given.get(_EXCLUDES.get(name, "")) is None}
        return replace(self, settings={**kept, **given})

    def begin(self, arguments: dict[str, Any]) -> Job:
        """The job itself, ready to run with stored arguments."""
        typed = self.signature.typed(arguments)
        if isinstance(self.code, type) and issubclass(self.code, Job):
            return self.code(**typed)
        return _FunctionJob(self.code, typed)


def known_settings(action: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by the names of `NewStep`; refuses those that it does not have."""
    if unknown := settings.keys() - {*SETTINGS, "retries"}:
        raise StepwellError(
            f"{action}: there is no setting {', '.join(sorted(unknown))}; there are {', '.join(sorted(SETTINGS))}"
        )
    return {"max_retries" if name == "retries" else name: value for name, value in settings.items()}


def _problems_of(action: str, settings: dict[str, Any]) -> list[str]:
    """What is wrong with settings that every step of a job would have."""
    plain = {name: value for name, value in settings.items() if name != "concurrency_key" or not callable(value)}
    return [problem.replace("max_retries", "retries") for problem in problems(NewStep(action=action, **plain))]


class Computes(Protocol[R_co]):
    """A class whose compute gives this."""

    def compute(self) -> R_co: ...


class ComputesLater(Protocol[R_co]):
    """A class whose compute gives it when it is awaited."""

    def compute(self) -> Awaitable[R_co]: ...


@dataclass(frozen=True, slots=True)
class Registration:
    """The decorator that `app.job(…)` gives."""

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
        if not callable(code):
            raise StepwellError(
                f"{code!r} cannot run as a step: a job is a function or a class, as in app.job()(fetch)"
            )
        action = self.name or getattr(code, "__name__", "")
        if not action:
            raise StepwellError(f"{code!r} has no name of its own: give it one, app.job(name=…)")
        settings = known_settings(action, self.settings)
        if problems := [*self.policy.problems(), *_problems_of(action, settings)]:
            raise StepwellError(f"the job {action!r} cannot be defined: {'; '.join(problems)}")
        if isinstance(code, type):
            if not issubclass(code, Job):
                raise StepwellError(f"{action}: a class that runs as a step is a subclass of stepwell.Job")
            if code.compute is Job.compute:
                raise StepwellError(f"{action}: the class has no compute, so there is nothing to run; write one")
            hooks, gives = hooks_of(code), code.compute
            is_async = any(inspect.iscoroutinefunction(getattr(code, name)) for name in (*hooks, "compute"))
        else:
            hooks, gives, is_async = frozenset[str](), code, is_coroutine(code)
        if inspect.isgeneratorfunction(gives) or inspect.isasyncgenfunction(gives):
            raise StepwellError(f"{action}: a job returns its result, and a generator has none; collect what it yields")
        signature = Signature(action, code, gives)
        job: JobDefinition[Any, Any] = JobDefinition(
            action, code, settings, self.policy, self.app, signature, hooks, is_async
        )
        self.app.jobs.add(job)
        return job


class Registry:
    """What an app can run."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobDefinition[..., Any]] = {}

    def add(self, job: JobDefinition[..., Any]) -> None:
        if job.action in self._jobs:
            raise StepwellError(f"the action {job.action!r} is already registered with this app")
        self._jobs[job.action] = job

    def drafted(self, draft: NewStep) -> NewStep:
        """A step of a job of this app as that job drafts it; any other as it comes, for another program may know it."""
        is_by_hand = not isinstance(draft, JobStep) and draft.action in self
        return self[draft.action].draft_like(draft) if is_by_hand else draft

    def actions(self) -> frozenset[str]:
        return frozenset(self._jobs)

    def __iter__(self) -> Iterator[JobDefinition[..., Any]]:
        return iter(self._jobs.values())

    def __contains__(self, action: object) -> bool:
        return isinstance(action, str) and action in self._jobs

    def __getitem__(self, action: str) -> JobDefinition[..., Any]:
        try:
            return self._jobs[action]
        except KeyError:
            raise UnknownAction(f"no job {action!r} is registered with this app") from None
