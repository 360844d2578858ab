"""The jobs of an app, by action. The action of a row is looked up only here: nothing is imported by name from data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwell.define.definition import JobDefinition, JobStep, known_settings
from stepwell.define.drafts import NewStep
from stepwell.model.errors import StepwellError, UnknownAction


class Registry:
    """The jobs that an app can run.

    A step with an unregistered action can still be created: another program may run it.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, JobDefinition[..., Any]] = {}

    def add(self, job: JobDefinition[..., Any]) -> None:
        if job.action in self._jobs:
            raise StepwellError(f"the action {job.action!r} is already registered with this app")
        self._jobs[job.action] = job

    def draft(self, action: str, arguments: Any, settings: dict[str, Any]) -> NewStep:
        """A new step; if the action is registered, with the settings of its job and validated arguments."""
        if action in self:
            return self[action].options(**settings).draft_by_name(arguments)
        return NewStep(action=action, arguments=arguments, **known_settings(action, settings))

    def redraft(self, draft: NewStep) -> NewStep:
        """The same for a draft that was not made by its job."""
        is_by_hand = not isinstance(draft, JobStep) and draft.action in self
        return self[draft.action].draft_like(draft) if is_by_hand else draft

    def actions(self) -> frozenset[str]:
        return frozenset(self._jobs)

    def __iter__(self) -> Iterator[JobDefinition[..., Any]]:
        return iter(self._jobs.values())

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
