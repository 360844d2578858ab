"""The run of a map: it creates one child for each element of its list, with the action that the map has itself."""

from __future__ import annotations

from typing import Any

from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import NewStep, Planned, ResolvedStep
from stepwell.define.job import Job
from stepwell.model.reasons import BAD_INPUT
from stepwell.run import endings
from stepwell.run.ending import Ending
from stepwell.run.running import RunningStep


class Expand(Job):
    """Stands in for the job while a map is run.

    Its arguments were put together at the claim: `elements`, and `element`, which describes what they share.
    """

    def __init__(self, definition: JobDefinition[..., Any], arguments: dict[str, Any]) -> None:
        self._definition = definition
        self._elements = arguments.get("elements")
        self._shared: dict[str, Any] = arguments["element"]

    def run(self, step: RunningStep) -> Ending:
        """All elements at index 1, so that they run side by side; the parent waits for them."""
        elements = self._elements
        if not isinstance(elements, list):
            error = TypeError(f"the source of a map must be a list, not {_name(elements)}")
            return endings.failure(error, BAD_INPUT, step)
        if elements:
            step.add_children([self._child(step, number, element) for number, element in enumerate(elements)])
        else:
            step.response = []
        return endings.finish(step)

    def _child(self, step: RunningStep, number: int, element: Any) -> NewStep:
        """It stores only its element: constants and shared inputs are read again when it is claimed."""
        arguments = {self._shared["parameter"]: element}
        return ResolvedStep(
            action=self._definition.action,
            arguments=arguments,
            parent=step.uuid,
            index=1,
            label=f"{step.label}[{number}]",
            queue=step.queue,
            max_retries=step.max_retries,
            timeout=step.timeout,
            cooldown=step.cooldown,
            planned=Planned(template=step.template or "", element=number),
            **self._key(step, arguments),
        )

    def _key(self, step: RunningStep, arguments: dict[str, Any]) -> dict[str, Any]:
        limit: int | None = self._shared["limit"]
        if limit is not None:
            return {"concurrency_key": f"map {step.uuid}", "concurrency_limit": limit}
        return self._definition.key_settings({**self._shared["constants"], **arguments})


def _name(value: Any) -> str:
    return "null" if value is None else type(value).__name__
