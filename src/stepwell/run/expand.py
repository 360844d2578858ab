"""The run of a map: it creates one child for each element of its list, with the action that the map has itself."""

from __future__ import annotations

from typing import Any

from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import NewStep, Planned, SettledStep
from stepwell.define.job import Job
from stepwell.model.reasons import BAD_INPUT
from stepwell.run import endings
from stepwell.run.ending import Ending
from stepwell.run.running import RunningStep


class Expand(Job):
    """Stands in for the job while a map is run.

    Its arguments were put together at the claim: `elements`, and `element`, the draft that all elements share.
    """

    def __init__(self, definition: JobDefinition[..., Any], arguments: dict[str, Any]) -> None:
        self._action = definition.action
        self._elements = arguments.get("elements")
        self._draft: dict[str, Any] = arguments["element"]

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
        draft = self._draft
        limit: int | None = draft["limit"]
        return SettledStep(
            action=self._action,
            arguments={**draft["arguments"], draft["parameter"]: element},
            parent=step.uuid,
            index=1,
            label=step.label,
            queue=step.queue,
            max_retries=draft["max_retries"],
            timeout=draft["timeout"],
            cooldown=draft["cooldown"],
            concurrency_key=draft["concurrency_key"] if limit is None else f"map {step.uuid}",
            concurrency_limit=limit or 1,
            planned=Planned(template=step.template or "", element=number),
        )


def _name(value: Any) -> str:
    return "null" if value is None else type(value).__name__
