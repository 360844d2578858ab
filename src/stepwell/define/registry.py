"""The jobs of an app, by action. The action of a row is looked up only here: nothing is imported by name from data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stepwell.define.definition import JobDefinition, known_settings
from stepwell.define.drafts import NewStep, ResolvedStep
from stepwell.model.errors import StepwellError, UnknownAction
from stepwell.share.strategy import Weight


class Registry:
    """The jobs that an app can run.

    A step with an unregistered action can still be created: another program may run it. A job is found by its action
    and by its aliases; steps that are created by an alias get the action.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, JobDefinition[..., Any]] = {}  # by action and by alias
        self._weights: dict[str, Weight] = {}

    def add(self, job: JobDefinition[..., Any]) -> None:
        for name in (job.action, *job.aliases):
            if (other := self._jobs.get(name)) is not None:
                whose = "" if other.action == name else f", as an alias of {other.action!r}"
                raise StepwellError(f"the action {name!r} is already registered with this app{whose}")
        self._jobs |= dict.fromkeys((job.action, *job.aliases), job)

    def remove(self, action: str) -> None:
        """Forget a job, to register other code for its action."""
        self._jobs.pop(action, None)

    def draft(self, action: str, arguments: Any, settings: dict[str, Any]) -> NewStep:
        """A new step; if the action is registered, with the settings of its job and validated arguments."""
        if action in self:
            return self[action].options(**settings).draft_by_name(arguments)
        return NewStep(action=action, arguments=arguments, **known_settings(action, settings))

    def redraft(self, draft: NewStep) -> NewStep:
        """The same for a draft that was not made by its job."""
        is_by_hand = not isinstance(draft, ResolvedStep) and draft.action in self
        return self[draft.action].draft_like(draft) if is_by_hand else draft

    def actions(self) -> frozenset[str]:
        """The actions that it can run, aliases included."""
        return frozenset(self._jobs)

    def weights(self) -> dict[str, Weight]:
        """The weight of each action that it can run."""
        return {name: job.policy.weight for name, job in self._jobs.items()} | self._weights

    def use_weights(self, weights: Mapping[str, Weight]) -> None:
        """Weights by action that take precedence over those of the jobs."""
        self._weights = dict(weights)

    def __iter__(self) -> Iterator[JobDefinition[..., Any]]:
        return (job for name, job in self._jobs.items() if name == job.action)

    def __contains__(self, action: object) -> bool:
        return isinstance(action, str) and action in self._jobs

    def get(self, action: str) -> JobDefinition[..., Any] | None:
        """The job of an action, if this app has it."""
        return self._jobs.get(action)

    def __getitem__(self, action: str) -> JobDefinition[..., Any]:
        try:
            return self._jobs[action]
        except KeyError:
            raise UnknownAction(f"no job {action!r} is registered with this app") from None
