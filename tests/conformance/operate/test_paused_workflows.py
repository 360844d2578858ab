"""A paused workflow: its Pending steps are held back, and nothing else is."""

from __future__ import annotations

import pytest

from stepwell import ActionRefused
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, run, run_level


def test_a_paused_workflow_is_held_back_alone_and_goes_on_when_it_is_resumed(engine: Engine) -> None:
    engine.plant("root(first > second), other", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        engine.app.pause_workflow(engine.refs["first"], who="alice", why="look at it first")
        engine.tick()
        assert engine.states("first", "other") == {"first": "Pending", "other": "Running"}
        (obstacle,) = engine.app.explain(engine.refs["first"]).obstacles
        assert obstacle.condition == "workflow"
        assert "operator:alice" in obstacle.message
        assert "look at it first" in obstacle.message
        engine.app.resume_workflow(engine.refs["root"], who="alice")
        run_level(engine, runner, "first")
        run_level(engine, runner, "second")
    engine.settle()
    assert engine.states("root", "first", "second") == dict.fromkeys(("root", "first", "second"), "Completed")


def test_what_runs_in_a_paused_workflow_comes_to_its_end_and_cascades_go_on(engine: Engine) -> None:
    engine.plant("root(bad:fail > behind(deep), !handler)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        (bad,) = engine.claim(runner, "bad")
        engine.app.pause_workflow(engine.refs["root"], who="alice")
        run(runner, bad)
        engine.tick()
        assert engine.states("bad", "behind", "deep", "handler", "root") == {
            "bad": "Failed", "behind": "NotRunnable", "deep": "NotRunnable", "handler": "Pending", "root": "Running",
        }  # fmt: skip
        engine.app.resume_workflow(engine.refs["root"], who="alice")
    engine.settle()
    assert engine.states("handler", "root") == {"handler": "Completed", "root": "Failed"}


def test_what_comes_into_a_paused_workflow_waits_and_goes_on_when_it_is_resumed(engine: Engine) -> None:
    engine.plant("base", group=GROUP)
    engine.app.pause_workflow(engine.refs["base"], who="alice")
    workflow = engine["base"].workflow_id
    engine.add("root_of_it", workflow=workflow)
    engine.add("delayed", workflow=workflow, delay=10)
    engine.add("dependent", depends_on=[engine.refs["base"]])
    engine.settle()
    engine.clock.advance(20)
    engine.settle()
    assert set(engine.states().values()) == {"Pending"}
    engine.app.resume_workflow(engine.refs["base"], who="alice")
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


def test_a_retry_in_a_paused_workflow_waits_until_it_is_resumed(engine: Engine) -> None:
    engine.plant("step:raise/ok", group=GROUP)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
        engine.app.pause_workflow(engine.refs["step"], who="alice")
        run(runner, claim)
    engine.clock.advance(60)
    engine.settle()
    assert engine.state("step") == "Pending"
    engine.app.resume_workflow(engine.refs["step"], who="alice")
    engine.settle()
    assert engine.state("step") == "Completed"


def test_a_workflow_that_is_not_paused_cannot_be_resumed(engine: Engine) -> None:
    engine.plant("step")
    with pytest.raises(ActionRefused, match="is not paused"):
        engine.app.resume_workflow(engine.refs["step"], who="alice")
