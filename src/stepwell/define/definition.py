"""A registered job: its code, its settings, and the steps that it drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from msgspec import structs

from stepwell.define.drafts import (
    SETTINGS,
    NewStep,
    ResolvedStep,
    encode_arguments,
    non_default_settings,
    resolved_step,
)
from stepwell.define.job import Job
from stepwell.define.policy import Policy
from stepwell.define.signature import Signature
from stepwell.model import codec
from stepwell.model.errors import StepwellError
from stepwell.model.suggest import refuse_unknown
from stepwell.store.on_loop import without_blocking

if TYPE_CHECKING:
    from stepwell.app import Stepwell
    from stepwell.enqueue.handle import Handle

P = ParamSpec("P")
R = TypeVar("R")

# None as the value of one of these means: as the job declares.
_NEVER_NONE: Final = frozenset({"priority", "max_retries", "timeout", "cooldown", "concurrency_limit"})
# Alternatives: a step that sets one of them overrides the job's setting of the other.
_EXCLUDES: Final = {"delay": "dispatch_after", "dispatch_after": "delay"}


class _FunctionJob(Job):
    """Adapts a function to the class form that the lifecycle runs."""

    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        self._function = function
        self._arguments = arguments

    def compute(self) -> Any:
        return self._function(**self._arguments)


@dataclass(frozen=True, slots=True, eq=False)
class JobDefinition(Generic[P, R]):
    """A registered job. Calling it runs it directly; `.enqueue` creates a step, typed like the code itself."""

    action: str
    code: Callable[..., Any]
    settings: dict[str, Any]
    policy: Policy
    app: Stepwell
    signature: Signature
    hooks: frozenset[str]
    is_async: bool
    aliases: tuple[str, ...] = ()
    connection: Any = None  # of the transaction in which `enqueue` creates steps

    def __reduce__(self) -> tuple[Any, ...]:
        return _same_job, (self.app, self.action, self.settings, self.connection)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        made: Any = self.code(*args, **kwargs)
        result: R = made.compute() if isinstance(made, Job) else made
        return result

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Create a step that will run the code with these arguments."""
        return self.app.enqueue_job(self, self._draft_of(self.signature.arguments(args, kwargs)))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """The same, without blocking an event loop."""
        return await without_blocking(
            self.connection, lambda connection: replace(self, connection=connection).enqueue(*args, **kwargs)
        )

    def draft(self, *args: P.args, **kwargs: P.kwargs) -> NewStep:
        """The same step, not created yet: for use in a tree or a graph with other steps."""
        if self.connection is not None:
            raise StepwellError(
                f"{self.action}: a draft has no connection; pass it where the step is created, "
                "app.enqueue_many([…], connection=…)"
            )
        return self._draft_of(self.signature.arguments(args, kwargs))

    def draft_by_name(self, arguments: Any) -> NewStep:
        """The same for arguments by name: in a dict, or in an object that JSON encodes as one."""
        if not isinstance(arguments, dict) or not all(isinstance(name, str) for name in arguments):
            arguments = codec.decode(encode_arguments(NewStep(action=self.action, arguments=arguments)))
        return self._draft_of(self.signature.arguments((), arguments))

    def draft_like(self, draft: NewStep) -> NewStep:
        """The same step as a draft of this job: fields left at their defaults take the settings of the job."""
        options = self.options(**non_default_settings(draft))
        return structs.replace(options.draft_by_name(draft.arguments), made_of=draft)

    def _draft_of(self, arguments: dict[str, Any]) -> ResolvedStep:
        settings = self.settings
        if callable(settings.get("concurrency_key")):
            settings = {**settings, "concurrency_key": settings["concurrency_key"](**arguments)}
        return resolved_step(action=self.action, arguments=arguments, **settings)

    def key_settings(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Its concurrency key and limit, if it has a key, for a step with these stored arguments."""
        key = self.settings.get("concurrency_key")
        if key is None:
            return {}
        limit = self.settings.get("concurrency_limit", 1)
        value = key(**self.signature.typed_some(arguments)) if callable(key) else key
        return {"concurrency_key": value, "concurrency_limit": limit}

    def options(self, **settings: Any) -> JobDefinition[P, R]:
        """The same job with other settings: `fetch.options(parent=step, delay=30).enqueue("BTC")`.

        With `connection`, `enqueue` and `aenqueue` create the step in the open transaction of that connection.
        """
        connection = settings.pop("connection", self.connection)
        given = known_settings(self.action, settings)
        given = {name: value for name, value in given.items() if value is not None or name not in _NEVER_NONE}
        kept = {name: value for name, value in self.settings.items() if given.get(_EXCLUDES.get(name, "")) is None}
        return replace(self, settings={**kept, **given}, connection=connection)

    def instantiate(self, arguments: dict[str, Any]) -> Job:
        """The job, ready to run with stored arguments."""
        typed = self.signature.typed(arguments)
        if isinstance(self.code, type) and issubclass(self.code, Job):
            return self.code(**typed)
        return _FunctionJob(self.code, typed)


def _same_job(app: Stepwell, action: str, settings: dict[str, Any], connection: Any) -> JobDefinition[..., Any]:
    """A job in another process, which has imported its app: `pool.map(fetch.enqueue, symbols)`."""
    return replace(app.jobs[action], settings=settings, connection=connection)


def known_settings(action: str, settings: dict[str, Any], of_the_job: Sequence[str] = ()) -> dict[str, Any]:
    """Settings by the field names of `NewStep`; rejects unknown ones. `of_the_job` are names to suggest besides."""
    refuse_unknown(action, settings, {*SETTINGS, "retries", *of_the_job})
    return {"max_retries" if name == "retries" else name: value for name, value in settings.items()}
