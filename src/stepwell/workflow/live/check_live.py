"""Whether the code of today can decode what the unfinished steps of live workflows will receive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stepwell.define.registry import Registry
from stepwell.define.signature import Signature
from stepwell.model import codec
from stepwell.model.states import CONCLUDED
from stepwell.store import Database, Transaction
from stepwell.store.engine import inputs
from stepwell.store.engine.inputs import LiveStep
from stepwell.workflow.live.inputs import decode_plan, sources_of, value_of
from stepwell.workflow.live.sources import Sources, load_sources
from stepwell.workflow.template import Path, StepTemplate


@dataclass(frozen=True, slots=True)
class LiveProblem:
    """Something that an unfinished step will receive, and that its code cannot take."""

    workflow_id: str
    step_id: int
    step: str  # its name in the template
    problem: str

    def __str__(self) -> str:
        return f"workflow {self.workflow_id}, step {self.step_id} ({self.step}): {self.problem}"


def check_live(database: Database, jobs: Registry, page_size: int) -> Iterator[LiveProblem]:
    """Check every unfinished step whose job is known, one page of steps at a time."""
    if page_size < 1:
        raise ValueError(f"page_size is {page_size}, not a whole number of at least 1")
    last = 0
    while True:
        after = last
        found, last = database.read(lambda tx, after=after: _check_page(tx, jobs, after, page_size))  # type: ignore[misc]
        yield from found
        if last == after:
            return


def _check_page(tx: Transaction, jobs: Registry, after: int, page_size: int) -> tuple[list[LiveProblem], int]:
    steps = inputs.live_steps(tx, after=after, limit=page_size)
    known = [step for step in steps if step.action in jobs]
    plans = {
        row.id: decode_plan(row.plan)
        for row in inputs.plans(tx, ids=sorted({step.planned_id for step in known}))
        if row.plan is not None
    }
    known = [step for step in known if step.planned_id in plans]
    sources = load_sources(
        tx, {step.planned_id: step.workflow_id for step in known}, {id: sources_of(plan) for id, plan in plans.items()}
    )
    problems = [
        LiveProblem(step.workflow_id, step.id, step.template, problem)
        for step in known
        for problem in _problems(step, plans[step.planned_id], sources[step.planned_id], jobs[step.action].signature)
    ]
    return problems, steps[-1].id if steps else after


def _problems(step: LiveStep, plan: StepTemplate, sources: Sources, signature: Signature) -> Iterator[str]:
    stored: Mapping[str, Any] = codec.decode(step.arguments)
    parameters = {each.parameter for each in plan.inputs} | plan.arguments.keys() | stored.keys()
    if plan.each is not None:
        parameters.add(plan.each.parameter)
    yield from signature.problems_of_names(parameters)
    values = {**plan.arguments, **stored}
    values |= {each.parameter: value_of(each, sources) for each in plan.inputs if _is_known(each.source, sources)}
    for name, value in values.items():
        yield from signature.problems_of_value(name, value)
    if plan.each is not None and step.element is None and _is_known(plan.each.source, sources):
        yield from _problems_of_elements(plan.each.parameter, sources.value(plan.each.source), signature)


def _problems_of_elements(parameter: str, elements: Any, signature: Signature) -> Iterator[str]:
    if not isinstance(elements, list):
        yield f"the source of a map must be a list, not {'null' if elements is None else type(elements).__name__}"
        return
    for place, element in enumerate(elements):
        for problem in signature.problems_of_value(parameter, element):
            yield f"element {place}: {problem}"


def _is_known(path: Path, sources: Sources) -> bool:
    """Whether the value will not change any more."""
    return path.step is None or sources.state_of(path.step) in CONCLUDED
