"""What a workflow promises beside the graph: defaults, names, handlers, events, the request."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Job, Permanent, State, WorkflowRequest, current_step
from stepwell.events import StepCompleted, TaskFinalizationStarted, WorkflowChanged
from stepwell.store.engine import workflows
from tests.conformance.support.engine import Engine
from tests.conformance.workflow.flows import steps_of


def broken() -> None:
    raise RuntimeError("every time")


@pytest.mark.parametrize(
    ("options", "attempts"), [({}, 3), ({"retry_limit": 2}, 2), ({"retryable": False}, 1), ({"retry_limit": 1}, 1)]
)
def test_retry_limit_is_the_number_of_attempts(engine: Engine, options: dict[str, Any], attempts: int) -> None:
    flow = engine.app.workflows().workflow("failing")
    flow.step(**options)(broken)
    run = flow.start()
    engine.settle()
    step = run.step("broken")
    assert (step.state, step.attempts) == (State.FAILED, attempts)
    assert run.state == "error"


def old() -> str:
    return "old"


def new() -> str:
    return "new"


def test_a_workflow_is_started_by_name_with_the_newest_version_of_the_default_namespace(engine: Engine) -> None:
    app = engine.app
    app.workflows().workflow("fulfil", version="9").step()(old)
    app.workflows().workflow("fulfil", version="10").step()(new)
    app.workflows("shop").workflow("fulfil", version="11").step()(old)
    run = app.workflows.start("fulfil")
    assert (run.row().namespace, run.row().version) == ("default", "10")
    assert app.workflows.start("fulfil", version=9).row().version == "9"
    assert app.workflows("shop").start("fulfil").row().version == "11"


class Charge(Job):
    def __init__(self, amount: int, rate: int = 2) -> None:
        self.amount = amount
        self.rate = rate

    def compute(self) -> int:
        return self.amount * self.rate


def amount() -> int:
    return 21


def doubled(charge: int) -> int:
    return charge


def test_a_handler_may_be_a_job_class(engine: Engine) -> None:
    flow = engine.app.workflows().workflow("charging")
    flow.step()(amount)
    flow.step(name="charge")(Charge)
    flow.step()(doubled)
    run = flow.start()
    engine.settle()
    assert run.step("doubled").response == 42


class Confirmed(Job):
    def __init__(self, amount: int) -> None:
        self.amount = amount

    def compute(self) -> int:
        return self.amount

    def confirm_or_retry(self) -> bool:
        return current_step().attempts > 1


def test_a_later_stage_that_is_retried_gets_its_inputs_again(engine: Engine) -> None:
    flow = engine.app.workflows().workflow("confirming")
    flow.step()(amount)
    flow.step(name="charge")(Confirmed)
    flow.step()(doubled)
    run = flow.start()
    engine.settle()
    assert (run.step("charge").attempts, run.step("doubled").response, run.state) == (2, 21, "complete")


SEEN: list[WorkflowRequest | None] = []


def asks() -> None:
    SEEN.append(current_step().workflow)


def test_a_handler_reads_the_request_of_its_workflow(engine: Engine) -> None:
    SEEN.clear()
    flow = engine.app.workflows("shop").workflow("asking")
    flow.step()(asks)
    run = flow.start({"order": 7}, initiator="web", source_system="crm", reason="checkout", tags=["vip"])
    engine.settle()
    (request,) = SEEN
    assert request is not None
    assert (request.id, request.namespace, request.name, request.version) == (run.id, "shop", "asking", "1")
    assert request.context == {"order": 7}
    assert (request.initiator, request.source_system, request.reason, request.tags) == (
        "web", "crm", "checkout", ["vip"],
    )  # fmt: skip


def test_a_step_of_no_declared_workflow_has_no_request(engine: Engine) -> None:
    SEEN.clear()
    engine.app.job(asks).enqueue()
    engine.settle()
    assert SEEN == [None]


def item(element: int) -> int:
    return element


def test_there_is_one_step_per_workflow_template_and_element(engine: Engine) -> None:
    flow = engine.app.workflows().workflow("unique")
    flow.step(each={"element": "context.items"})(item)
    run = flow.start({"items": [1]})
    engine.settle()
    columns = "workflow_id, block_uuid, index, type, action, queue, arguments, template, element"
    quoted = columns.replace("index", '"index"')
    for name in ("item", "item[0]"):
        with pytest.raises(Exception, match=r"(?i)unique"):
            engine.change(
                f"INSERT INTO steps (uuid, {quoted}) SELECT :uuid, {quoted} FROM steps WHERE id = :id",
                id=steps_of(engine.app, run.id)[name].id,
                uuid="01a1ed15-a917-7002-90c3-73e70d989cf7",
            )


# The execution context ----------------------------------------------------------------------------------------


def test_the_execution_context_is_asked_for_many_workflows_at_once(engine: Engine) -> None:
    flow = engine.app.workflows().workflow("asking")
    flow.step()(old)
    runs = [flow.start() for _ in range(3)]
    engine.settle()
    found = engine.app.database.read(lambda tx: workflows.execution(tx, ids=[run.id for run in runs]))
    assert {row.workflow_id for row in found} == {run.id for run in runs}
    assert {row.execution_status for row in found} == {"all_complete"}


# Events -------------------------------------------------------------------------------------------------------


def fails() -> None:
    raise Permanent("no")


def test_every_change_of_a_workflow_is_published_after_its_commit(engine: Engine) -> None:
    app = engine.app
    seen: list[tuple[str, str | None, str]] = []

    @app.events.on(WorkflowChanged)
    def note(event: WorkflowChanged) -> None:
        seen.append((event.workflow, event.from_state, event.to_state))
        assert app.workflows.run(event.workflow_id).state == event.to_state

    flow = app.workflows("shop").workflow("failing")
    flow.step()(fails)
    run = flow.start()
    engine.settle()
    run.resolve(who="alice")
    run.retry(who="alice")
    run.cancel(who="alice")
    assert [each[1:] for each in seen] == [
        (None, "pending"),
        ("pending", "in_progress"),
        ("in_progress", "error"),
        ("error", "resolved_manually"),
        ("resolved_manually", "in_progress"),
        ("in_progress", "cancelled"),
    ]


def test_a_settling_workflow_publishes_its_context_and_step_completed_its_duration(engine: Engine) -> None:
    app = engine.app
    settled: list[TaskFinalizationStarted] = []
    completed: list[StepCompleted] = []
    app.events.on(TaskFinalizationStarted)(settled.append)
    app.events.on(StepCompleted)(completed.append)
    flow = app.workflows("shop").workflow("settling")
    flow.step()(old)
    flow.step()(new)
    run = flow.start()
    engine.settle()
    (event,) = settled
    assert event.name == "workflow.task_finalization_started"
    assert (event.workflow_id, event.context.completed, event.context.execution_status) == (run.id, 2, "all_complete")
    assert all(each.duration is not None for each in completed)
