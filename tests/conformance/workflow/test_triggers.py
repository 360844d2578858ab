"""Trigger rules, and what a step learns about upstream steps that did not conclude."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Outcome, Permanent, Skip, State, Stepwell, Workflow
from stepwell.run.ending import Ending
from tests.conformance.support.engine import Engine, failed, returned
from tests.conformance.workflow.flows import steps_of


def left(context: dict[str, str]) -> str:
    return act(context.get("left", "ok"), "left")


def right(context: dict[str, str]) -> str:
    return act(context.get("right", "ok"), "right")


def act(what: str, name: str) -> str:
    if what == "fail":
        raise Permanent(f"{name} broke")
    if what == "skip":
        raise Skip("not needed")
    return name


def behind(left: str) -> str:
    return left


def further(behind: str) -> str:
    return behind


def report(left: Outcome[str], right: Outcome[str]) -> dict[str, Any]:
    return {"left": shown(left), "right": shown(right)}


def shown(outcome: Outcome[Any]) -> list[Any]:
    return [outcome.state.value, outcome.result, outcome.error]


def reporting(app: Stepwell, trigger: Any) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("reporting")
    flow.step()(left)
    flow.step()(right)
    flow.step(trigger=trigger)(report)
    return flow


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ({}, {"left": ["Completed", "left", None], "right": ["Completed", "right", None]}),
        ({"left": "skip"}, {"left": ["Skipped", None, None], "right": ["Completed", "right", None]}),
        (
            {"left": "fail", "right": "fail"},
            {"left": ["Failed", None, "Permanent: left broke"], "right": ["Failed", None, "Permanent: right broke"]},
        ),
    ],
)
def test_under_all_ended_every_input_is_an_outcome(engine: Engine, ends: dict[str, str], found: Any) -> None:
    run = reporting(engine.app, "all_ended").start(ends)
    engine.settle()
    assert run.step("report").response == found


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ({}, "Completed"),
        ({"left": "fail"}, "Completed"),
        ({"left": "skip", "right": "skip"}, "Completed"),
        ({"left": "skip", "right": "fail"}, "Completed"),
        ({"left": "fail", "right": "fail"}, "NotRunnable"),
    ],
)
def test_any_concluded_is_met_by_a_completed_input_or_when_all_have_ended_and_one_was_skipped(
    engine: Engine, ends: dict[str, str], state: str
) -> None:
    run = reporting(engine.app, "any_concluded").start(ends)
    engine.settle()
    assert run.step("report").state == state


def test_any_concluded_starts_with_the_first_completed_input_but_not_with_a_skipped_one(engine: Engine) -> None:
    run = reporting(engine.app, "any_concluded").start({"left": "skip"})
    engine.refs |= {name: run.step(name).ref for name in ("left", "right", "report")}
    with engine.worker() as runner:
        one, other = engine.claim(runner, "left", "right")
        engine.app._finisher.write(one, _skip())
        engine.tick()
        assert runner.claim(5) == []
        returned(engine.app._finisher, other, "right")
        engine.claim(runner, "report")


def _skip() -> Ending:
    return Ending(verb="skip", reason="not needed", duration=0.1)


def test_any_concluded_sees_an_input_that_has_not_ended(engine: Engine) -> None:
    run = reporting(engine.app, "any_concluded").start({})
    engine.refs |= {name: run.step(name).ref for name in ("left", "right", "report")}
    with engine.worker() as runner:
        one, other = engine.claim(runner, "left", "right")
        returned(engine.app._finisher, one, "left")
        engine.tick()
        assert runner.round() == 1
        returned(engine.app._finisher, other, "right")
    assert run.step("report").response == {"left": ["Completed", "left", None], "right": ["Running", None, None]}


def chained(app: Stepwell) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("chained")
    for code in (left, behind, further):
        flow.step()(code)
    flow.step(trigger="all_ended")(last)
    return flow


def last(further: Outcome[str]) -> list[Any]:
    return shown(further)


def test_the_outcome_of_a_step_that_could_not_run_names_the_root_failure(engine: Engine) -> None:
    run = chained(engine.app).start({"left": "fail"})
    engine.settle()
    state, result, error = run.step("last").response
    assert (state, result) == ("NotRunnable", None)
    root = run.step("left")
    assert f"step {root.id}" in error
    assert "left broke" in error


def test_the_root_failure_of_a_cancelled_step_is_the_cancellation(engine: Engine) -> None:
    run = chained(engine.app).start({})
    engine.app.cancel(run.step("left"), who="alice", why="wrong order")
    engine.settle()
    state, _, error = run.step("last").response
    assert state == "NotRunnable"
    assert "wrong order" in error


def test_the_root_failure_is_found_below_a_parent_that_failed_through_its_children(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("mapped")
    flow.step(each={"item": "context.items"})(picky)
    flow.step()(after_map)
    flow.step(trigger="all_ended")(final)
    run = flow.start({"items": ["a", "bad"]})
    engine.settle()
    state, _, error = run.step("final").response
    assert state == "NotRunnable"
    assert "picky about bad" in error


def picky(item: str) -> str:
    if item == "bad":
        raise Permanent(f"picky about {item}")
    return item


def after_map(picky: list[str]) -> int:
    return len(picky)


def final(after_map: Outcome[int]) -> list[Any]:
    return shown(after_map)


def outcomes(picky: list[Outcome[str]]) -> list[Any]:
    return [shown(each) for each in picky]


def test_the_outcomes_of_a_map_are_those_of_its_elements(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("mapped")
    flow.step(each={"item": "context.items"})(picky)
    flow.step(trigger="all_ended")(outcomes)
    run = flow.start({"items": ["a", "bad"]})
    engine.settle()
    assert run.step("outcomes").response == [
        ["Completed", "a", None],
        ["Failed", None, "Permanent: picky about bad"],
    ]


def test_input_skipped_does_not_apply_under_the_other_rules(engine: Engine) -> None:
    run = reporting(engine.app, "any_concluded").start({"left": "skip"})
    engine.settle()
    assert run.step("report").state is State.COMPLETED


def test_a_step_that_ended_is_not_run_again_because_an_upstream_step_is_retried(engine: Engine) -> None:
    app, run = engine.app, reporting(engine.app, "all_ended").start({"left": "fail"})
    engine.settle()
    before = app.history(run.step("report").id)
    app.retry(run.step("left"), who="alice")
    engine.settle()
    assert app.history(run.step("report").id) == before
    assert run.state == "error"


def test_a_step_that_waits_is_held_back_when_an_upstream_step_is_retried(engine: Engine) -> None:
    """It was open because all had ended; now one of them runs again."""
    app = engine.app
    run = reporting(app, "all_ended").start({})
    engine.refs |= {name: run.step(name).ref for name in ("left", "right", "report")}
    with engine.worker() as runner:
        one, other = engine.claim(runner, "left", "right")
        failed(app._finisher, one, "no")
        returned(app._finisher, other, "right")
        app.retry(run.step("left"), who="alice")
        claims = engine.claim(runner, "left")
        assert run.step("report").state is State.PENDING
        returned(app._finisher, claims[0], "left")
        engine.tick()
        assert runner.round() == 1
    assert run.step("report").response["left"] == ["Completed", "left", None]


def test_any_concluded_over_a_map_sees_its_elements(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("mapped")
    flow.step(each={"item": "context.items"})(picky)
    flow.step(trigger="any_concluded")(outcomes)
    run = flow.start({"items": ["a"]})
    engine.settle()
    assert run.step("outcomes").response == [["Completed", "a", None]]
    assert len(steps_of(engine.app, run.id)) == 3
