"""Maps: one child for each element of a list, and the joins below them."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import NewStep, Permanent, Skip, State, Stepwell, Workflow, WorkflowDefinitionError, current_step
from stepwell.model.errors import ActionRefused
from stepwell.store.engine.runs import Success, finish_all
from stepwell.workflow.run import Run
from tests.conformance.support.engine import Engine, returned
from tests.conformance.workflow.flows import states_of, steps_of


def work(item: Any) -> Any:
    """Does what its element says."""
    match item:
        case "fail":
            raise Permanent("told to fail")
        case "skip":
            raise Skip("told to skip")
        case "flaky" if current_step().attempts == 1:
            raise RuntimeError("told to fail once")
    return item


def join(work: list[Any]) -> list[Any]:
    return work


def declare(app: Stepwell, **options: Any) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("mapping")
    flow.step(each={"item": "context.items"}, **options)(work)
    flow.step()(join)
    return flow


def run_of(engine: Engine, items: Any, **options: Any) -> Run:
    run = declare(engine.app, **options).start({"items": items})
    engine.settle(slots=16)
    return run


# A map and its join -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 30])
def test_the_join_of_a_map_is_a_list_in_the_order_of_the_input(engine: Engine, count: int) -> None:
    run = run_of(engine, [f"line {number}" for number in range(count)])
    assert run.step("join").response == [f"line {number}" for number in range(count)]
    assert run.state == "complete"
    assert len(steps_of(engine.app, run.id)) == count + 2


@pytest.mark.slow
def test_a_map_over_ten_thousand_elements_completes(engine: Engine) -> None:
    app, run = engine.app, declare(engine.app).start({"items": list(range(10_000))})
    with engine.worker(slots=500) as runner:
        engine.tick()
        assert runner.round() == 1
        while run.step("work").state is State.RUNNING:
            engine.tick()
            claims = runner.claim(500)
            ends = [Success(each, each.step.arguments[8:-1], 0.1) for each in claims]  # the element itself
            app.database.transact(
                lambda tx, ends=ends: finish_all(tx, ends, actor="worker:test", now=engine.clock.now())  # type: ignore[misc]
            )
    engine.settle()
    assert run.step("join").response == list(range(10_000))
    assert run.state == "complete"
    assert run.execution().completed == 10_002


def test_a_worker_claims_the_map_and_its_elements_are_at_index_one_with_their_place(engine: Engine) -> None:
    run = run_of(engine, ["a", "b"])
    steps = steps_of(engine.app, run.id)
    assert [each.to_state for each in engine.app.history(steps["work"].id)] == [
        "Pending", "Dispatched", "Running", "Completed",
    ]  # fmt: skip
    assert [(steps[f"work[{n}]"].index, steps[f"work[{n}]"].element) for n in (0, 1)] == [(1, 0), (1, 1)]
    assert steps["work"].kind == "map"


def test_every_element_runs_to_its_end_and_one_that_did_not_conclude_fails_the_map(engine: Engine) -> None:
    run = run_of(engine, ["a", "fail", "b"])
    assert states_of(engine.app, run.id) == {
        "work": "Failed", "work[0]": "Completed", "work[1]": "Failed", "work[2]": "Completed", "join": "NotRunnable",
    }  # fmt: skip
    assert run.step("work").reason == "children_failed"
    assert run.state == "error"


def test_an_element_has_retries_of_its_own(engine: Engine) -> None:
    run = run_of(engine, ["a", "flaky"])
    steps = steps_of(engine.app, run.id)
    assert (steps["work[0]"].attempts, steps["work[1]"].attempts) == (1, 2)
    assert run.step("join").response == ["a", "flaky"]


def test_a_retried_element_reopens_its_map_and_what_is_below(engine: Engine) -> None:
    app, run = engine.app, run_of(engine, ["a", "fail"])
    element = steps_of(app, run.id)["work[1]"]
    engine.change('UPDATE steps SET arguments = \'{"item": "b"}\' WHERE id = :id', id=element.id)
    app.retry(element, who="alice")
    assert (run.step("work").state, run.step("join").state, run.state) == (State.RUNNING, State.PENDING, "in_progress")
    engine.settle()
    assert run.step("join").response == ["a", "b"]
    assert [each.to_state for each in run.history()] == ["pending", "in_progress", "error", "in_progress", "complete"]


def test_elements_that_skip_themselves_are_left_out_of_the_list(engine: Engine) -> None:
    run = run_of(engine, ["a", "skip", "b"])
    assert run.step("join").response == ["a", "b"]
    assert run.result(run_map(engine), timeout=0) == ["a", "b"]
    assert run.state == "complete"


def run_map(engine: Engine) -> Any:
    return engine.app.workflows.get("mapping", namespace="shop")["work"]


def test_an_operator_skips_or_completes_an_element_as_the_map_allows(engine: Engine) -> None:
    app, run = engine.app, run_of(engine, ["a", "fail", "fail"], skippable=True)
    steps = steps_of(app, run.id)
    app.skip(steps["work[1]"], who="alice")
    app.complete(steps["work[2]"], who="alice", response="by hand")
    engine.settle()
    assert run.step("join").response == ["a", "by hand"]


def test_an_element_is_shown_with_its_place(engine: Engine) -> None:
    run = run_of(engine, ["a", "fail"])
    assert [step.name for step in engine.app.steps() if step.element is not None] == ["work[1]", "work[0]"]
    assert "work[1]" in engine.app.explain(run.step("join")).summary
    element = steps_of(engine.app, run.id)["work[1]"]
    (root,) = (root for root in engine.app.explain(element).roots if not root.is_later)
    assert root.advice == (f"stepwell retry {element.id}",)  # the map is not skippable


def test_an_element_of_a_map_that_is_not_skippable_cannot_be_skipped(engine: Engine) -> None:
    run = run_of(engine, ["a", "fail"])
    with pytest.raises(ActionRefused, match="skippable"):
        engine.app.skip(steps_of(engine.app, run.id)["work[1]"], who="alice")


@pytest.mark.parametrize("source", [None, 7, "text", {"a": 1}])
def test_a_source_that_is_not_a_list_fails_the_map_without_a_retry(engine: Engine, source: Any) -> None:
    run = run_of(engine, source)
    step = run.step("work")
    assert (step.state, step.reason, step.attempts) == (State.FAILED, "bad_input", 1)
    assert "must be a list" in str(step.error_message)


def test_a_map_is_completed_by_hand_with_a_list(engine: Engine) -> None:
    app, run = engine.app, run_of(engine, 7)
    with pytest.raises(ActionRefused, match="array"):
        app.complete(run.step("work"), who="alice", response="a")
    app.complete(run.step("work"), who="alice", response=["x", "y"])
    engine.settle()
    assert run.step("join").response == ["x", "y"]
    assert run.result(run_map(engine), timeout=0) == ["x", "y"]


def test_a_list_by_hand_replaces_the_elements_of_a_failed_map(engine: Engine) -> None:
    app, run = engine.app, run_of(engine, ["a", "fail"])
    app.complete(run.step("work"), who="alice", response=["x"])
    engine.settle()
    assert run.step("join").response == ["x"]
    assert run.state == "complete"


# What elements store and take ---------------------------------------------------------------------------------


def shared(item: str, rate: int, big: str, note: str = "") -> str:
    return f"{item} {rate} {len(big)} {note}"


def big() -> str:
    return "x" * 1_000_000


def rate() -> int:
    return 3


def test_an_element_stores_only_its_element_and_shared_inputs_have_no_limit_of_size(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("sharing")
    flow.step()(big)
    flow.step()(rate)
    flow.step(each={"item": "context.items"}, arguments={"note": "constant"})(shared)
    run = flow.start({"items": ["a", "b"]})
    engine.settle()
    steps = steps_of(engine.app, run.id)
    assert [steps[f"shared[{n}]"].arguments for n in (0, 1)] == [{"item": "a"}, {"item": "b"}]
    assert [steps[f"shared[{n}]"].response for n in (0, 1)] == ["a 3 1000000 constant", "b 3 1000000 constant"]


def test_a_joined_list_is_larger_than_any_argument_may_be(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("joining")
    flow.step(each={"item": "context.items"})(grown)
    flow.step()(sizes)
    run = flow.start({"items": [400_000] * 4})
    engine.settle()
    assert run.step("sizes").response == [400_000] * 4


def grown(item: int) -> str:
    return "x" * item


def sizes(grown: list[str]) -> list[int]:
    return [len(each) for each in grown]


def test_the_settings_of_a_registered_job_hold_for_the_elements(engine: Engine) -> None:
    app = engine.app

    @app.job(name="labels", timeout=40, cooldown=4, queue="candles", concurrency_key="printer", concurrency_limit=2)
    def label(item: str) -> str:
        return item

    flow = app.workflows("shop").workflow("labelling")
    flow.step(name="label", each={"item": "context.items"}, retry_limit=2)(label)
    run = flow.start({"items": ["a"]})
    engine.settle()
    element = steps_of(app, run.id)["label[0]"]
    assert (element.timeout, element.cooldown, element.queue, element.max_retries) == (40, 4, "candles", 1)
    assert (element.concurrency_key, element.concurrency_limit) == ("printer", 2)
    assert steps_of(app, run.id)["label"].concurrency_key is None


def test_a_concurrency_key_that_is_a_function_is_computed_for_each_element(engine: Engine) -> None:
    app = engine.app

    @app.job(name="labels", concurrency_key=lambda item: f"printer {item}")
    def label(item: str) -> str:
        return item

    flow = app.workflows("shop").workflow("labelling")
    flow.step(name="label", each={"item": "context.items"})(label)
    run = flow.start({"items": ["a", "b"]})
    engine.settle()
    steps = steps_of(app, run.id)
    assert [steps[f"label[{n}]"].concurrency_key for n in (0, 1)] == ["printer a", "printer b"]


def test_a_key_that_depends_on_data_of_other_steps_is_refused(app: Stepwell) -> None:
    @app.job(name="labels", concurrency_key=lambda rate: f"printer {rate}")
    def label(rate: int) -> str:
        return str(rate)

    flow = app.workflows("shop").workflow("labelling")
    flow.step()(rate)
    flow.step(name="label")(label)
    with pytest.raises(WorkflowDefinitionError, match="not known when the step is created"):
        flow.check()


def test_limit_bounds_how_many_elements_run_at_once(engine: Engine) -> None:
    run = declare(engine.app, limit=2).start({"items": list("abcdef")})
    with engine.worker() as runner:
        engine.tick()
        assert runner.round() == 1  # the map itself
        while run.state == "in_progress":
            engine.tick()
            claimed = runner.claim(10)
            assert len(claimed) <= 2
            for each in claimed:
                returned(engine.app._finisher, each, None)
    assert run.execution().completed == 8


# Skipped maps -------------------------------------------------------------------------------------------------


def source(context: dict[str, Any]) -> list[str]:
    if context.get("skip"):
        raise Skip("nothing today")
    return ["a", "b"]


def each_of(item: str) -> str | None:
    if item == "b":
        raise Skip("not this one")
    return item.upper()


def takes_list(each_of: list[str]) -> Any:
    return each_of


def takes_places(each_of: list[str | None]) -> Any:
    return each_of


def takes_optional(each_of: list[str] | None) -> Any:
    return each_of


def skipping(app: Stepwell) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("skipping")
    flow.step()(source)
    flow.step(each={"item": "source"})(each_of)
    for code in (takes_list, takes_places, takes_optional):
        flow.step()(code)
    return flow


def test_a_join_treats_skipped_elements_as_its_annotation_says(engine: Engine) -> None:
    run = skipping(engine.app).start({})
    engine.settle()
    assert {name: run.step(name).response for name in ("takes_list", "takes_places", "takes_optional")} == {
        "takes_list": ["A"], "takes_places": ["A", None], "takes_optional": ["A"],
    }  # fmt: skip


def test_a_map_whose_source_is_skipped_is_skipped_and_so_is_its_join_unless_it_takes_none(engine: Engine) -> None:
    run = skipping(engine.app).start({"skip": True})
    engine.settle()
    states = states_of(engine.app, run.id)
    assert states == {
        "source": "Skipped", "each_of": "Skipped", "takes_list": "Skipped", "takes_places": "Skipped",
        "takes_optional": "Completed",
    }  # fmt: skip
    assert run.step("each_of").reason == "input_skipped"
    assert run.step("takes_optional").response is None
    assert run.state == "complete"


# Several maps -------------------------------------------------------------------------------------------------


def second(item: Any) -> Any:
    return f"{item}!"


def both(work: list[Any], second: list[Any]) -> list[Any]:
    return [work, second]


def test_a_map_over_a_map_leaves_skipped_elements_out(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("chained")
    flow.step(each={"item": "context.items"})(work)
    flow.step(each={"item": "work"})(second)
    flow.step()(both)
    run = flow.start({"items": ["a", "skip", "b"]})
    engine.settle()
    assert run.step("both").response == [["a", "b"], ["a!", "b!"]]
    assert len(steps_of(engine.app, run.id)) == 3 + 3 + 2


def test_a_step_below_two_maps_joins_both(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("two_maps")
    flow.step(each={"item": "context.left"})(work)
    flow.step(each={"item": "context.right"})(second)
    flow.step()(both)
    run = flow.start({"left": ["a"], "right": []})
    engine.settle()
    assert run.step("both").response == [["a"], []]


# Children of steps --------------------------------------------------------------------------------------------


def test_a_step_waits_for_the_children_that_it_spawns_before_its_dependents_run(engine: Engine) -> None:
    app = engine.app
    flow = app.workflows("shop").workflow("spawning")
    flow.step(arguments={"outcome": "ok"})(parent)
    flow.step()(after_parent)
    run = flow.start()
    engine.settle()
    assert run.step("after_parent").response == "done"
    below = app.tree(run.step("parent").id)
    assert [str(child.step.state) for child in below.children] == ["Completed", "Completed"]
    assert run.state == "complete"


def parent(outcome: str) -> str:
    draft = NewStep(action="behave", arguments={"outcome": outcome})
    current_step().children(draft, NewStep(action="behave"))
    return "done"


def after_parent(parent: Any) -> Any:
    return parent


def test_a_failed_child_of_a_step_settles_the_workflow_as_error(engine: Engine) -> None:
    app = engine.app
    flow = app.workflows("shop").workflow("spawning")
    flow.step(arguments={"outcome": "fail"})(parent)
    flow.step()(after_parent)
    run = flow.start()
    engine.settle()
    assert (run.state, run.step("after_parent").state) == ("error", State.NOT_RUNNABLE)
