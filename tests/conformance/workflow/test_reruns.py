"""A rerun: a new workflow that copies what had concluded."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Permanent, Skip, State, Stepwell, Workflow
from stepwell.model.errors import ActionRefused, WorkflowNotFound
from tests.conformance.support.engine import Engine
from tests.conformance.workflow.flows import states_of, steps_of

RUNS: list[str] = []


def first(context: dict[str, Any]) -> int:
    RUNS.append("first")
    return int(context["start"])


def each(item: int) -> int:
    RUNS.append(f"each {item}")
    if item == 0:
        raise Skip("nothing")
    return item * 10


def beside() -> str:
    RUNS.append("beside")
    return "beside"


def total(each: list[int], first: int) -> int:
    RUNS.append("total")
    return sum(each) + first


def last(total: int, beside: str | None) -> str:
    RUNS.append("last")
    return f"{total} {beside}"


def broken() -> None:
    RUNS.append("broken")
    raise Permanent("always")


@pytest.fixture(autouse=True)
def _no_runs() -> None:
    RUNS.clear()


def declare(app: Stepwell) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("rerunning")
    flow.step()(first)
    flow.step(each={"item": "context.items"})(each)
    flow.step(skippable=True)(beside)
    flow.step()(total)
    flow.step()(last)
    return flow


CONTEXT = {"start": 1, "items": [1, 0, 2]}


def test_a_rerun_runs_the_step_and_everything_downstream_and_copies_the_rest(engine: Engine) -> None:
    run = declare(engine.app).start(CONTEXT, initiator="web", tags=["vip"])
    engine.settle()
    RUNS.clear()
    again = run.rerun("total", who="alice", why="a bug was fixed")
    assert again.step("first").reason == "copied"
    engine.settle()
    assert RUNS == ["total", "last"]
    assert again.step("last").response == "31 beside"
    assert again.state == "complete"
    row = again.row()
    assert (row.rerun_of, row.initiator, row.request_reason) == (run.id, "operator:alice", "a bug was fixed")
    assert (row.context, row.tags, row.content_hash) == (CONTEXT, ["vip"], run.row().content_hash)
    assert run.state == "complete"


def test_maps_are_copied_with_their_elements_also_skipped_ones(engine: Engine) -> None:
    run = declare(engine.app).start(CONTEXT)
    engine.settle()
    again = run.rerun("last", who="alice")
    engine.settle()
    copied = steps_of(engine.app, again.id)
    assert [str(copied[f"each[{n}]"].state) for n in range(3)] == ["Completed", "Skipped", "Completed"]
    assert copied["each[2]"].response == 20
    assert again.rerun("total", who="alice").step("each").state is State.COMPLETED
    engine.settle()
    assert RUNS.count("total") == 2


def test_a_map_is_run_again_with_all_its_elements(engine: Engine) -> None:
    run = declare(engine.app).start(CONTEXT)
    engine.settle()
    RUNS.clear()
    again = run.rerun("each", who="alice")
    engine.settle()
    assert sorted(RUNS) == ["each 0", "each 1", "each 2", "last", "total"]
    assert again.step("last").response == "31 beside"


def test_what_had_not_concluded_runs_too(engine: Engine) -> None:
    flow = declare(engine.app)
    flow.step()(broken)
    run = flow.start(CONTEXT)
    engine.settle()
    RUNS.clear()
    again = run.rerun("last", who="alice")
    engine.settle()
    assert sorted(RUNS) == ["broken", "last"]
    assert (again.state, run.state) == ("error", "error")


def test_a_rerun_of_a_running_workflow_leaves_it_alone(engine: Engine) -> None:
    flow = declare(engine.app)
    flow.gate("approval", after=["last"])
    run = flow.start(CONTEXT)
    engine.settle()
    again = run.rerun("last", who="alice")
    engine.settle()
    assert (run.state, again.state) == ("in_progress", "in_progress")
    assert again.execution().waits_for_gates == ["approval"]
    again.answer("approval", None, who="alice")
    assert (run.state, again.state) == ("in_progress", "complete")


def test_an_answered_gate_is_copied(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("gated")
    flow.gate("approval", result=bool)
    flow.step()(approved)
    run = flow.start()
    engine.settle()
    run.answer("approval", True, who="alice")
    engine.settle()
    again = run.rerun("approved", who="alice")
    engine.settle()
    assert again.step("approved").response is True


def approved(approval: bool) -> bool:
    return approval


def test_a_bypassed_step_is_copied_as_skipped_and_runs_only_if_the_rerun_starts_with_it(engine: Engine) -> None:
    run = declare(engine.app).start(CONTEXT, bypass_steps=["beside"])
    engine.settle()
    copied = run.rerun("last", who="alice")
    engine.settle()
    assert (copied.step("beside").state, copied.step("last").response) == (State.SKIPPED, "31 None")
    again = run.rerun("beside", who="alice")
    engine.settle()
    assert again.step("last").response == "31 beside"


def test_a_rerun_keeps_the_graph_whatever_is_declared_today(engine: Engine) -> None:
    run = declare(engine.app).start(CONTEXT)
    engine.settle()
    newer = engine.app.workflows("shop").workflow("rerunning", version="2")
    newer.step()(first)
    again = run.rerun("first", who="alice")
    assert again.row().version == "1"
    assert len(again.steps()) == 5
    engine.settle()
    assert again.state == "complete"


def test_a_rerun_has_an_identity_of_its_own(engine: Engine) -> None:
    run = declare(engine.app).start(CONTEXT, key="order 7")
    engine.settle()
    assert run.rerun("last", who="alice").row().identity is None
    assert run.rerun("last", who="alice").id != run.rerun("last", who="alice").id


def test_failed_elements_of_a_map_that_was_completed_by_hand_are_not_copied(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("by_hand")
    flow.step(each={"item": "context.items"})(picky)
    flow.step()(count)
    run = flow.start({"items": [1, -1]})
    engine.settle()
    engine.app.complete(run.step("picky"), who="alice", response=[1, 2, 3])
    engine.settle()
    again = run.rerun("count", who="alice")
    engine.settle()
    assert (again.step("count").response, again.state) == (3, "complete")
    assert "Failed" not in states_of(engine.app, again.id).values()


def picky(item: int) -> int:
    if item < 0:
        raise Permanent("negative")
    return item


def count(picky: list[int]) -> int:
    return len(picky)


def test_a_rerun_from_nowhere_is_refused(engine: Engine) -> None:
    run = declare(engine.app).start(CONTEXT)
    with pytest.raises(ActionRefused, match="has no step 'nowhere'"):
        run.rerun("nowhere", who="alice")
    with pytest.raises(WorkflowNotFound):
        engine.app.workflows.run("01a1ed15-a917-7002-90c3-73e70d989cf7").rerun("last", who="alice")
