"""Shared by the tests of workflows: templates written by hand, and what became of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from stepwell import Stepwell
from stepwell.model.step import Step
from stepwell.store.engine import workflows
from stepwell.store.engine.workflows import Execution, WorkflowRow
from stepwell.workflow.live.start import Start
from stepwell.workflow.template import StepTemplate, Template

_NUMBERS = itertools.count()  # each template has a name of its own: a version never changes its content


def start(app: Stepwell, *steps: StepTemplate, context: str = "{}", **request: Any) -> str:
    """Start a workflow of these steps; returns its id."""
    template = Template(name=f"flow {next(_NUMBERS)}", steps=steps)
    return app.workflow_engine.starter.start(template, Start(context=context, **request))


def steps_of(app: Stepwell, workflow_id: str) -> dict[str, Step]:
    """The steps of a template by name, and the elements of its maps as `name[0]`."""
    found = [step for step in app.steps(limit=1_000) if step.workflow_id == workflow_id and step.template is not None]
    return {str(s.template) if s.element is None else f"{s.template}[{s.element}]": s for s in found}


def states_of(app: Stepwell, workflow_id: str) -> dict[str, str]:
    return {name: str(step.state) for name, step in sorted(steps_of(app, workflow_id).items())}


def row_of(app: Stepwell, workflow_id: str) -> WorkflowRow:
    row = app.database.read(lambda tx: workflows.workflow(tx, id=workflow_id))
    assert row is not None
    return row


def path_of(app: Stepwell, workflow_id: str) -> Sequence[str]:
    """The states that a workflow went through."""
    return [each.to_state for each in app.database.read(lambda tx: workflows.workflow_transitions(tx, id=workflow_id))]


def execution_of(app: Stepwell, workflow_id: str) -> Execution:
    (found,) = app.database.read(lambda tx: workflows.execution(tx, ids=[workflow_id]))
    return found


def job(name: str, **settings: Any) -> StepTemplate:
    """A step of the job `behave`; `outcome` chooses how it ends."""
    arguments = {key: settings.pop(key) for key in ("outcome", "result", "spawn", "seconds") if key in settings}
    return StepTemplate(name=name, action="behave", arguments=arguments, **settings)
