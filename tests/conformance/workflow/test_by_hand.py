"""What operators do with the steps of workflows."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Permanent, State, Stepwell, Workflow
from stepwell.model.errors import ActionRefused, IllegalTransition, InvalidRequest
from stepwell.workflow.run import Run
from tests.conformance.support.engine import Engine
from tests.conformance.workflow.flows import states_of, steps_of


def bad() -> int:
    raise Permanent("never works")


def takes(bad: int) -> int:
    return bad + 1


def optional(bad: int | None) -> str:
    return f"got {bad}"


def after() -> str:
    return "ran"


def declare(app: Stepwell, **options: Any) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("byhand")
    flow.step(**options)(bad)
    for code in (takes, optional):
        flow.step()(code)
    flow.step(after=["bad"])(after)
    return flow


def failed(engine: Engine, **options: Any) -> Run:
    run = declare(engine.app, **options).start()
    engine.settle()
    assert run.state == "error"
    return run


def test_skippable_governs_operators_skips_and_bypasses(engine: Engine) -> None:
    run = failed(engine)
    with pytest.raises(ActionRefused, match="skippable"):
        engine.app.skip(run.step("bad"), who="alice")
    with pytest.raises(ActionRefused, match="skippable"):
        engine.app.transition_to(run.step("bad"), State.SKIPPED, who="alice")
    with pytest.raises(InvalidRequest, match="not skippable"):
        declare(engine.app).start(bypass_steps=["bad"])


@pytest.mark.parametrize("skippable", [False, True])
def test_explain_advises_a_skip_only_where_the_workflow_allows_it(engine: Engine, skippable: bool) -> None:
    run = failed(engine, skippable=skippable)
    root, then = engine.app.explain(run.step("bad")).roots
    assert (root.is_later, then.condition, then.is_later) == (False, "workers", True)
    verbs = [advice.split()[1] for advice in root.advice]
    assert verbs == (["retry", "skip"] if skippable else ["retry"])


def test_the_reason_of_a_resume_is_recorded(engine: Engine) -> None:
    run = declare(engine.app).start()
    run.pause(who="alice", why="lunch")
    run.resume(who="bob", why="back")
    found = [(row.kind, row.actor, row.reason) for row in engine.app.operations.of_workflow(run.id)]
    assert sorted(found) == [("pause_workflow", "operator:alice", "lunch"), ("resume_workflow", "operator:bob", "back")]


def test_a_skip_by_hand_skips_what_needs_the_result_and_runs_the_rest(engine: Engine) -> None:
    run = failed(engine, skippable=True)
    assert run.preview_skip("bad") == ["bad", "takes"]
    engine.app.skip(run.step("bad"), who="alice")
    engine.settle()
    assert states_of(engine.app, run.id) == {
        "bad": "Skipped", "takes": "Skipped", "optional": "Completed", "after": "Completed",
    }  # fmt: skip
    assert run.step("takes").reason == "input_skipped"
    assert run.state == "complete"


def test_a_bypassed_step_is_created_skipped_and_its_dependents_decide_by_their_annotation(engine: Engine) -> None:
    run = declare(engine.app, skippable=True).start(bypass_steps=["bad"])
    assert (run.step("bad").state, run.step("bad").reason) == (State.SKIPPED, "bypassed")
    engine.settle()
    assert states_of(engine.app, run.id) == {
        "bad": "Skipped", "takes": "Skipped", "optional": "Completed", "after": "Completed",
    }  # fmt: skip
    assert engine.app.history(run.step("bad").id)[0].to_state == "Skipped"


def test_skipped_is_final(engine: Engine) -> None:
    app, run = engine.app, failed(engine, skippable=True)
    app.skip(run.step("bad"), who="alice")
    with pytest.raises(ActionRefused):
        app.retry(run.step("bad"), who="alice")
    with pytest.raises(ActionRefused):
        app.complete(run.step("bad"), who="alice", response=1)
    with pytest.raises(IllegalTransition):
        app.transition_to(run.step("bad"), State.PENDING, who="alice")
    assert run.step("bad").state is State.SKIPPED


def test_a_result_by_hand_is_validated_and_required_where_a_dependent_needs_it(engine: Engine) -> None:
    app, run = engine.app, failed(engine)
    with pytest.raises(ActionRefused, match="integer"):
        app.complete(run.step("bad"), who="alice", response="seven")
    with pytest.raises(ActionRefused, match=r"integer|result"):
        app.complete(run.step("bad"), who="alice")
    with pytest.raises(ActionRefused, match=r"integer|result"):
        app.transition_to(run.step("bad"), State.COMPLETED, who="alice")
    app.complete(run.step("bad"), who="alice", response=7)
    engine.settle()
    assert (run.step("takes").response, run.state) == (8, "complete")
    assert run.step("bad").actor == "operator:alice"


def test_no_result_is_needed_where_none_is_taken(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("byhand")
    flow.step()(bad)
    flow.step(after=["bad"])(after)
    flow.step()(optional)
    run = flow.start()
    engine.settle()
    engine.app.complete(run.step("bad"), who="alice")
    engine.settle()
    assert (run.step("optional").response, run.state) == ("got None", "complete")


def each(item: int) -> int:
    if item < 0:
        raise Permanent("negative")
    return item


def join(each: list[int]) -> list[int]:
    return each


def places(each: list[int | None]) -> list[int | None]:
    return each


@pytest.mark.parametrize(("joined_by", "refused"), [(join, True), (places, False)])
def test_an_element_is_completed_without_a_result_only_if_its_join_allows_it(
    engine: Engine, joined_by: Any, refused: bool
) -> None:
    flow = engine.app.workflows("shop").workflow("elements")
    flow.step(each={"item": "context.items"})(each)
    flow.step(name="joined")(joined_by)
    run = flow.start({"items": [1, -1]})
    engine.settle()
    element = steps_of(engine.app, run.id)["each[1]"]
    if refused:
        with pytest.raises(ActionRefused, match=r"integer|result"):
            engine.app.complete(element, who="alice")
        return
    engine.app.complete(element, who="alice")
    engine.settle()
    assert run.step("joined").response == [1, None]


def test_a_retry_of_a_whole_workflow_leaves_what_is_below_a_concluded_step_alone(engine: Engine) -> None:
    """A map that was completed by hand keeps its failed elements: nothing could run below it."""
    flow = engine.app.workflows("shop").workflow("elements")
    flow.step(each={"item": "context.items"})(each)
    flow.step()(join)
    flow.step()(bad)
    run = flow.start({"items": [1, -1]})
    engine.settle()
    engine.app.complete(run.step("each"), who="alice", response=[1, 2])
    engine.settle()
    assert run.retry(who="alice") == [run.step("bad").id]
    engine.settle()
    assert run.state == "error"
    assert run.step("join").response == [1, 2]


def test_a_failed_step_of_a_cancelled_workflow_returns_with_everything_else(engine: Engine) -> None:
    flow = declare(engine.app)
    flow.gate("approval")
    run = flow.start()
    engine.app.run_until_idle()
    run.cancel(who="alice", why="wrong")
    assert (run.state, run.step("takes").reason) == ("cancelled", "workflow_cancelled")
    engine.settle()
    assert set(states_of(engine.app, run.id).values()) == {"Failed", "Cancelled"}
    assert len(run.retry(who="bob")) == 5
    assert run.state == "in_progress"
    engine.settle()
    assert run.execution().waits_for_gates == ["approval"]
    run.answer("approval", None, who="bob")
    assert run.state == "error"
