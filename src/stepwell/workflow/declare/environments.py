"""Settings that differ between environments: production has other timeouts than a laptop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from stepwell.workflow.declare.declaration import Declaration
from stepwell.workflow.declare.problems import Problem
from stepwell.workflow.declare.resolve import Header, resolve
from stepwell.workflow.declare.settings import READERS, read_settings
from stepwell.workflow.declare.words import problem_of_name, shown, suggestion
from stepwell.workflow.template import Template


class Environments:
    """Overrides by environment and step. They change settings, never the graph, and are not part of the hash."""

    def __init__(self, declared: Any) -> None:
        self._declared = {} if declared is None else declared

    def __bool__(self) -> bool:
        return bool(self._declared)

    def problems(self, header: Header, steps: Sequence[Declaration]) -> list[Problem]:
        """Everything that is wrong with the overrides themselves, and with the steps that they change."""
        found = list(self._problems_of_shape(steps))
        if found or resolve(header, steps)[0] is None:
            return found
        for name, overrides in self._declared.items():
            _, problems = resolve(header, _overridden(steps, overrides))
            found += [_in(name, problem) for problem in problems]
        return found

    def _problems_of_shape(self, steps: Sequence[Declaration]) -> Iterator[Problem]:
        by_name = {str(step.name): step for step in steps}
        if not isinstance(self._declared, Mapping):
            yield Problem(
                f"environments is {shown(self._declared)}: expected a mapping from environments to settings of steps",
                key="environments",
            )
            return
        for name, overrides in self._declared.items():
            if (problem := problem_of_name(name)) is not None:
                yield Problem(f"environments: {problem}", key="environments")
            if not isinstance(overrides, Mapping):
                yield _in(name, Problem(f"{shown(overrides)}: expected a mapping from steps to settings"))
                continue
            for step, settings in overrides.items():
                if step not in by_name:
                    yield _in(name, Problem(f"unknown step {step!r}; {suggestion(str(step), by_name, 'steps')}"))
                elif not isinstance(settings, Mapping):
                    yield _in(name, Problem(f"{shown(settings)}: expected a mapping of settings", step))
                else:
                    for key in settings.keys() - READERS.keys():
                        hint = suggestion(str(key), READERS, "settings")
                        yield _in(name, Problem(f"{key!r} cannot differ between environments; {hint}", step))

    def declared_in(self, template: Template) -> Template:
        """The template with its overrides in their stored form."""
        stored = {
            name: {step: read_settings(settings, template.step(step).kind)[0] for step, settings in overrides.items()}
            for name, overrides in self._declared.items()
        }
        return msgspec.structs.replace(template, environments=stored)

    def apply(
        self, environment: str | None, template: Template, header: Header, steps: Sequence[Declaration]
    ) -> Template:
        """The template as it runs in an environment, with the hash of the one without overrides."""
        if environment is None or environment not in self._declared:
            return msgspec.structs.replace(template, environments={})
        applied, problems = resolve(header, _overridden(steps, self._declared[environment]))
        assert applied is not None, problems  # `problems` has tried it
        return msgspec.structs.replace(applied, base_hash=template.content_hash())


def queues_of(template: Template) -> set[str]:
    """Every queue that its steps may be created in."""
    overrides = [settings for steps in template.environments.values() for settings in steps.values()]
    named = [step.queue for step in template] + [settings.get("queue") for settings in overrides]
    return {queue for queue in named if queue is not None}


def _overridden(steps: Sequence[Declaration], overrides: Mapping[str, Mapping[str, Any]]) -> list[Declaration]:
    """The steps with the settings of an environment; constant arguments are merged."""

    def settings_of(step: Declaration) -> dict[str, Any]:
        given = dict(overrides.get(step.name, {}))
        if isinstance(given.get("arguments"), Mapping):
            given["arguments"] = {**step.settings.get("arguments", {}), **given["arguments"]}
        return {**step.settings, **given}

    return [replace(step, settings=settings_of(step)) for step in steps]


def _in(environment: object, problem: Problem) -> Problem:
    step = f"step {problem.step!r}: " if problem.step else ""
    return Problem(f"environment {environment!r}: {step}{problem.message}", key=f"environments.{environment}")
