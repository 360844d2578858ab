"""The arguments of the steps of a workflow, put together when they are claimed.

A step stores only its constant arguments, an element of a map only its element. Everything else is read from the rows
of the upstream steps, so it is subject to no limit on the size of arguments and is never stored twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stepwell.model import codec
from stepwell.model.claimed import ClaimedStep
from stepwell.model.features import WORKFLOW
from stepwell.model.states import State
from stepwell.store import Database, Transaction
from stepwell.store.engine import inputs
from stepwell.workflow.live.sources import Outcome, Sources, load_sources
from stepwell.workflow.template import Input, StepTemplate

_plan_decoder = msgspec.json.Decoder(StepTemplate)


def decode_plan(text: str | bytes) -> StepTemplate:
    return _plan_decoder.decode(text)


class Inputs:
    """Completes the arguments of claimed steps."""

    def __init__(self, database: Database) -> None:
        database.hooks.on_claim(WORKFLOW, self.fill)

    def fill(self, tx: Transaction, steps: list[ClaimedStep]) -> list[ClaimedStep]:
        """The claimed steps with all their arguments."""
        # An element takes what its map takes.
        planned = {step.id: _planned_id(step) for step in steps if step.template is not None}
        if not planned:
            return steps
        plans = {
            row.id: decode_plan(row.plan)
            for row in inputs.plans(tx, ids=sorted(set(planned.values())))
            if row.plan is not None
        }
        by_workflow = {planned[step.id]: step.workflow_id for step in steps if planned.get(step.id) in plans}
        needed = {id: sources_of(plans[id]) for id in by_workflow}
        sources = load_sources(tx, by_workflow, needed)
        return [
            step
            if (id := planned.get(step.id)) not in plans
            else msgspec.structs.replace(step, arguments=_arguments(step, plans[id], sources[id]))
            for step in steps
        ]


def _planned_id(step: ClaimedStep) -> int:
    return step.id if step.element is None or step.parent_step_id is None else step.parent_step_id


def sources_of(plan: StepTemplate) -> set[str]:
    """The names of the upstream steps whose values a step takes."""
    paths = [each.source for each in plan.inputs] + [condition.path for condition in plan.conditions]
    if plan.each is not None:
        paths.append(plan.each.source)
    return {path.step for path in paths if path.step is not None}


def _arguments(step: ClaimedStep, plan: StepTemplate, sources: Sources) -> str:
    stored = codec.decode(step.arguments)
    if plan.each is not None and step.kind == "map":
        element = {"parameter": plan.each.parameter, "constants": stored, "limit": plan.limit}
        return _encode({"elements": sources.value(plan.each.source), "element": element})
    constants = plan.arguments if step.element is not None else {}
    return _encode({**values_of(plan.inputs, sources), **constants, **stored})


def values_of(inputs: Iterable[Input], sources: Sources) -> dict[str, Any]:
    """The values of the parameters by name."""
    return {each.parameter: value_of(each, sources) for each in inputs}


def value_of(what: Input, sources: Sources) -> Any:
    """The value of one parameter."""
    step = what.source.step
    if step is None:
        return sources.value(what.source)
    if what.is_list and not what.source.keys:
        return _list(what, step, sources.steps, sources.elements.get(step, ()))
    if what.is_outcome:
        found = sources.steps.get(step)
        return None if found is None else found.as_json()
    return sources.value(what.source)


def _list(what: Input, step: str, steps: Mapping[str, Outcome], elements: Iterable[Outcome]) -> Any:
    if what.is_outcome:
        return [each.as_json() for each in elements]
    if (found := steps.get(step)) is None or found.state is not State.COMPLETED:
        return None
    if what.keeps_skipped:
        return [each.result for each in elements]
    return [each.result for each in elements if each.state is State.COMPLETED]


def _encode(arguments: Any) -> str:
    return msgspec.json.encode(arguments).decode()
