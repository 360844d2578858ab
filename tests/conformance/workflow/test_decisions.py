"""Conditions and skipped inputs are decided once, before any claim, without a worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stepwell import Skip, State, Stepwell, Workflow, current_step
from stepwell.workflow.run import Run
from tests.conformance.support.engine import Engine


def guarded() -> str:
    return "ran"


def conditional(app: Stepwell, when: dict[str, Any], **options: Any) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("deciding")
    flow.step(when=when, **options)(guarded)
    return flow


def decided(engine: Engine, when: dict[str, Any], context: Any) -> Run:
    run = conditional(engine.app, when).start(context)
    engine.tick()  # a dispatcher alone: no worker is needed
    return run


@pytest.mark.parametrize(
    ("value", "wanted", "runs"),
    [
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        (1, 1.0, True),
        (1.0, 1, True),
        (0, False, False),
        ("1", 1, False),
        (None, None, True),
        (0, None, False),
        ("", None, False),
        ([1, True], [[1.0, True]], True),
        ([1, True], [[1, 1]], False),
        ({"a": [1]}, {"a": [1.0]}, True),
        ({"a": True}, {"a": 1}, False),
        ("eu", ["us", "eu"], True),
        (2**53 + 1, float(2**53), False),
        (0.1 + 0.2, 0.3, False),
        ("é", "e\u0301", False),
    ],
)
def test_values_compare_as_typed_json(engine: Engine, value: Any, wanted: Any, runs: bool) -> None:
    run = decided(engine, {"context.value": wanted}, {"value": value})
    step = run.step("guarded")
    assert step.state is (State.PENDING if runs else State.SKIPPED)
    assert step.reason == (None if runs else "condition_not_met")
    assert run.state == ("pending" if runs else "complete")


@pytest.mark.parametrize("path", ["context.missing", "context.value.deeper", "context.items.7", "context.items.x"])
def test_a_missing_path_is_null(engine: Engine, path: str) -> None:
    run = decided(engine, {path: None}, {"value": 1, "items": [1]})
    assert run.step("guarded").state is State.PENDING


def test_every_path_must_match(engine: Engine) -> None:
    run = decided(engine, {"context.a": 1, "context.b": [1, 2]}, {"a": 1, "b": 3})
    step = run.step("guarded")
    assert (step.state, step.error_message) == (State.SKIPPED, "context.b is 3, not 1 or 2")
    assert step.decision == {
        "when": {"context.a": {"wanted": [1], "found": 1}, "context.b": {"wanted": [1, 2], "found": 3}}
    }


def source(context: dict[str, Any]) -> Any:
    if context.get("skip"):
        raise Skip("not today")
    return context["value"]


def test_a_condition_over_a_result_makes_the_step_depend_on_it(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("deciding")
    flow.step()(source)
    flow.step(when={"source.kind": "big"})(guarded)
    big, small = flow.start({"value": {"kind": "big"}}), flow.start({"value": {"kind": "small"}})
    assert engine.app.reader.dependencies(big.step("guarded").id)[0].template == "source"
    engine.settle()
    assert (big.step("guarded").state, small.step("guarded").state) == (State.COMPLETED, State.SKIPPED)
    assert big.step("guarded").decision["when"]["source.kind"]["found"] == "big"


def test_an_upstream_step_that_did_not_complete_is_null_and_after_never_skips(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("deciding")
    flow.step()(source)
    flow.step(when={"source": None})(guarded)
    flow.step(name="after", after=["source"])(guarded_too)
    run = flow.start({"skip": True})
    engine.settle()
    assert (run.step("guarded").state, run.step("after").state) == (State.COMPLETED, State.COMPLETED)


def guarded_too() -> None: ...


def echo(item: Any) -> Any:
    if item is None:
        raise Skip("nothing")
    return item


def test_a_condition_over_a_map_sees_the_list_of_its_results(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("deciding")
    flow.step(each={"item": "context.items"})(echo)
    flow.step(when={"echo": [["a", "b"]]})(guarded)
    one, other = flow.start({"items": ["a", None, "b"]}), flow.start({"items": ["a"]})
    engine.settle()
    assert (one.step("guarded").state, other.step("guarded").state) == (State.COMPLETED, State.SKIPPED)


def huge(item: int) -> str:
    return "x" * item


def test_a_condition_over_values_larger_than_a_column_holds_stops_no_tick(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("deciding")
    flow.step(each={"item": "context.items"})(huge)
    flow.step(when={"huge": None})(guarded)
    run = flow.start({"items": [600_000] * 3})
    engine.settle()
    step = run.step("guarded")
    assert (step.state, step.reason) == (State.SKIPPED, "condition_not_met")
    assert len(str(step.decision)) < 5_000
    assert run.state == "complete"


def deep() -> Any:
    value: Any = 1
    for _ in range(63):
        value = [value]
    return value


def long() -> str:
    return "x" * 1_048_000


@pytest.mark.parametrize("wanted", [1, "y" * 2_000])
def test_a_condition_over_a_text_as_long_as_allowed_stops_no_tick(engine: Engine, wanted: Any) -> None:
    flow = engine.app.workflows("shop").workflow("deciding")
    flow.step()(long)
    flow.step(when={"long": wanted})(guarded)
    run = flow.start()
    engine.settle()
    assert run.step("long").state is State.COMPLETED
    assert run.step("guarded").state is State.SKIPPED


@pytest.mark.parametrize("wanted", [1, [deep()]])
def test_a_condition_over_a_value_as_deep_as_allowed_stops_no_tick(engine: Engine, wanted: Any) -> None:
    flow = engine.app.workflows("shop").workflow("deciding")
    flow.step()(deep)
    flow.step(when={"deep": wanted})(guarded)
    run = flow.start()
    engine.settle()
    assert run.step("deep").state is State.COMPLETED
    assert run.step("guarded").state is (State.SKIPPED if wanted == 1 else State.COMPLETED)


def flaky() -> str:
    if current_step().attempts == 1:
        raise RuntimeError("once")
    return "ran"


def test_a_retry_does_not_decide_again(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("deciding")
    flow.step(when={"context.go": True}, delay=60)(flaky)
    run = flow.start({"go": True})
    engine.tick()
    decision = run.step("flaky").decision
    engine.change("UPDATE steps_workflows SET context = '{\"go\": false}'")
    engine.settle()
    step = run.step("flaky")
    assert (step.state, step.attempts, step.decision) == (State.COMPLETED, 2, decision)


def test_a_condition_counts_before_a_skipped_input(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("deciding")
    flow.step()(source)
    flow.step(when={"context.go": True})(takes)
    run = flow.start({"skip": True, "go": False})
    engine.settle()
    assert run.step("takes").reason == "condition_not_met"


def takes(source: str) -> str:
    return source


def maybe(source: str | None) -> str:
    return f"got {source}"


def test_a_skipped_input_skips_the_step_unless_it_takes_none(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("deciding")
    for code in (source, takes, maybe):
        flow.step()(code)
    run = flow.start({"skip": True})
    engine.settle()
    step = run.step("takes")
    assert (step.state, step.reason, step.decision) == (State.SKIPPED, "input_skipped", {"skipped": "source"})
    assert "'source'" in str(step.error_message)
    assert run.step("maybe").response == "got None"


def test_decisions_are_made_while_dispatching_is_off(engine: Engine) -> None:
    engine.app.breaker.pause(who="alice")
    run = decided(engine, {"context.value": 1}, {"value": 2})
    assert run.step("guarded").state is State.SKIPPED
    assert run.state == "complete"


def test_explain_names_the_path_that_did_not_match_with_what_was_wanted_and_found(engine: Engine) -> None:
    run = decided(engine, {"context.region": ["eu", "us"]}, {"region": "asia"})
    assert engine.app.explain(run.step("guarded")).summary == (
        'ended Skipped (condition_not_met): context.region is "asia", not "eu" or "us"'
    )


def test_explain_says_that_a_tick_decides(engine: Engine) -> None:
    run = conditional(engine.app, {"context.value": 1}).start({"value": 1})
    assert "decision" in [each.condition for each in engine.app.explain(run.step("guarded")).obstacles]
    engine.tick()
    assert "decision" not in [each.condition for each in engine.app.explain(run.step("guarded")).obstacles]


# Delays -------------------------------------------------------------------------------------------------------


def test_a_delay_counts_from_when_the_step_is_ready_and_takes_no_slot(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("delaying")
    flow.step()(source)
    flow.step(delay=60)(takes)
    run = flow.start({"value": "a"})
    engine.clock.advance(3_600)
    engine.app.run_until_idle()
    assert run.step("takes").dispatch_after == engine.clock.now() + timedelta(seconds=60)
    assert run.execution().execution_status == "waiting_for_dependencies"
    assert run.execution().next_change_at == engine.clock.now() + timedelta(seconds=60)
    engine.clock.advance(59)
    assert engine.app.run_until_idle() == 0
    engine.clock.advance(1)
    assert engine.app.run_until_idle() == 1
    assert run.step("takes").response == "a"


def test_a_step_that_is_skipped_has_no_delay(engine: Engine) -> None:
    run = conditional(engine.app, {"context.value": 1}, delay=60).start({"value": 2})
    engine.tick()
    assert run.step("guarded").state is State.SKIPPED


def test_a_delay_runs_on_while_the_workflow_is_paused(engine: Engine) -> None:
    run = conditional(engine.app, {"context.value": 1}, delay=60).start({"value": 1})
    engine.tick()
    run.pause(who="alice")
    engine.clock.advance(30)
    engine.settle()
    run.resume(who="alice")
    engine.tick()
    assert run.execution().next_change_at == engine.clock.now() + timedelta(seconds=30)
    engine.settle()
    assert run.step("guarded").response == "ran"
