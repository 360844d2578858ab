"""A workflow that was started: its state, its results, and what a person can do with it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from stepwell.define.signature import convert
from stepwell.enqueue.handle import poll_intervals
from stepwell.look.explain import WorkflowExplanation, explain_workflow
from stepwell.model import codec
from stepwell.model.errors import StepDidNotConclude, StepNotFound, StepTimeout, StepwellError
from stepwell.model.states import CONCLUDED, State
from stepwell.model.step import Step
from stepwell.model.workflow_states import SETTLED, WorkflowState
from stepwell.store.engine import inputs, workflows
from stepwell.store.engine.workflows import Execution, TemplateStep, WorkflowRow, WorkflowTransition
from stepwell.store.missing import missing_workflow
from stepwell.workflow.by_hand.manual import skipped_with
from stepwell.workflow.steps import DeclaredStep, Gate

if TYPE_CHECKING:
    from stepwell.app import Stepwell

R = TypeVar("R")


class Run:
    """A workflow that was started, by its id."""

    def __init__(self, app: Stepwell, workflow_id: str) -> None:
        self._app = app
        self.id = workflow_id

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    @property
    def app(self) -> Stepwell:
        return self._app

    # look -------------------------------------------------------------------------------------------------

    def row(self) -> WorkflowRow:
        """The workflow as it is now: its request and its state."""
        found = self._app.database.read(lambda tx: workflows.workflow(tx, id=self.id))
        return found if found is not None else self._missing()

    @property
    def state(self) -> WorkflowState:
        return WorkflowState(self.row().state)

    def execution(self) -> Execution:
        """Its steps in numbers, and what it waits for."""
        found = self._app.database.read(lambda tx: workflows.execution(tx, ids=[self.id]))
        return found[0] if found else self._missing()

    def _missing(self) -> NoReturn:
        raise self._app.database.read(lambda tx: missing_workflow(tx, self.id))

    def history(self) -> list[WorkflowTransition]:
        """Every change of its state."""
        return self._app.database.read(lambda tx: workflows.workflow_transitions(tx, id=self.id))

    def steps(self) -> dict[str, TemplateStep]:
        """The steps of its template by name; the elements of a map are below it."""
        found = self._app.database.read(lambda tx: workflows.template_steps(tx, id=self.id))
        return {step.template: step for step in found}

    def step(self, which: DeclaredStep[Any] | str) -> Step:
        """One step, as it is now."""
        name = which if isinstance(which, str) else which.name
        steps = self.steps()
        if name not in steps:
            raise StepNotFound(f"workflow {self.id} has no step {name!r}; its steps: {', '.join(steps) or 'none'}")
        return self._app.step(steps[name].id)

    def explain(self) -> WorkflowExplanation:
        """Why it has not completed: its steps that have not concluded, and the root causes behind all of them."""
        return explain_workflow(self._app.database, self.row().id)

    # wait -------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> WorkflowState:
        """Wait until it has settled; raises `StepTimeout` if that takes too long."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for pause in poll_intervals():
            if (state := self.state) in SETTLED:
                return state
            if deadline is not None and time.monotonic() >= deadline:
                break
            time.sleep(pause)
        raise StepTimeout(
            f"workflow {self.id} has not settled in {timeout} s: it is {self.execution().execution_status}"
        )

    def result(self, step: DeclaredStep[R], timeout: float | None = None) -> R:
        """Wait for the end of a step and return its result: a list, if it is a map; the answer, if it is a gate.

        None if it was skipped. Raises `StepDidNotConclude` if it failed, and `StepTimeout` if it has not ended in time.
        """
        step_id = self.step(step).id
        deadline = None if timeout is None else time.monotonic() + timeout
        for pause in poll_intervals():
            found = self._app.step(step_id)
            if found.state.is_terminal:
                return self._result(step, found)
            if deadline is not None and time.monotonic() >= deadline:
                break
            time.sleep(pause)
        why = self._app.explain(step_id).summary
        raise StepTimeout(f"step {step.name!r} of workflow {self.id} has not ended in {timeout} s: {why}")

    async def aresult(self, step: DeclaredStep[R], timeout: float | None = None) -> R:
        """The same, without blocking an event loop."""
        return await asyncio.to_thread(self.result, step, timeout)

    def _result(self, step: DeclaredStep[R], found: Step) -> R:
        if found.state not in CONCLUDED:
            why = found.error_message or found.reason or "no reason given"
            raise StepDidNotConclude(f"step {found.id} ({found.name}) is {found.state}: {why}", found)
        value: Any = None
        if found.state is State.COMPLETED:
            value = self._elements(found) if found.kind == "map" and found.response is None else found.response
        hint = step.workflow.result_type(step.name)
        try:
            result: Any = None if value is None else convert(value, hint)
        except (ValueError, TypeError) as error:
            raise StepwellError(
                f"step {found.id} ({found.name}) is {found.state}, but its result does not match its annotation "
                f"({error}); app.step({found.id}).response is the stored value"
            ) from error
        typed: R = result
        return typed

    def _elements(self, found: Step) -> list[Any]:
        blocks = [found.child_block_uuid] if found.child_block_uuid is not None else []
        elements = self._app.database.read(lambda tx: inputs.elements(tx, blocks=blocks))
        return [codec.decode(each.response) for each in elements if each.state is State.COMPLETED]

    # act --------------------------------------------------------------------------------------------------

    def answer(self, gate: Gate[R] | str, answer: Any, *, who: str, why: str | None = None) -> None:
        """Answer an open gate: the first answer counts."""
        self._app.workflow_engine.gates.answer(self.step(gate).id, answer, who, why)

    def preview_skip(self, step: DeclaredStep[Any] | str) -> list[str]:
        """The names of the steps that a skip of this one would skip: itself first, then what needs its result."""
        name = self.step(step).template or ""
        return self._app.database.read(lambda tx: skipped_with(tx, self.id, name))

    def cancel(self, *, who: str, why: str | None = None) -> list[int]:
        """Cancel everything that has not ended; returns the ids of the cancelled steps."""
        return self._app.workflow_engine.actions.cancel(self.id, who, why)

    def retry(self, *, who: str, why: str | None = None) -> list[int]:
        """Return every step that ended without concluding to Pending; returns their ids."""
        return self._app.workflow_engine.actions.retry(self.id, who, why)

    def resolve(self, *, who: str, why: str | None = None) -> None:
        """Declare it as resolved by hand, after it ended in error or was cancelled."""
        self._app.workflow_engine.actions.resolve(self.id, who, why)

    def pause(self, *, who: str, why: str | None = None) -> None:
        """Hold back its Pending steps; what runs continues."""
        self._app.actions.pause_workflow(self.id, who, why)

    def resume(self, *, who: str, why: str | None = None) -> None:
        """Resume it after a pause."""
        self._app.actions.resume_workflow(self.id, who, why)

    def rerun(self, step: DeclaredStep[Any] | str, *, who: str, why: str | None = None) -> Run:
        """Start a copy that runs again from this step, with everything downstream of it and everything unconcluded."""
        name = step if isinstance(step, str) else step.name
        return Run(self._app, self._app.workflow_engine.rerun(self.id, name, who, why))
