"""`explain`: every unmet condition of a step, the rows behind it, and when it will change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stepwell.look.explain import Explanation, Obstacle
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, insert_sql, run, run_level, tick


def _explain(engine: Engine, label: str) -> Explanation:
    return engine.app.explain(engine.refs[label])


def _only(engine: Engine, label: str, condition: str) -> Obstacle:
    """The one obstacle of a step, which is of that kind."""
    explanation = _explain(engine, label)
    assert [obstacle.condition for obstacle in explanation.obstacles] == [condition], explanation
    (obstacle,) = explanation.obstacles
    assert obstacle.message in explanation.summary
    return obstacle


def test_a_step_without_obstacles_is_ready(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker():
        explanation = _explain(engine, "step")
        assert (explanation.eligible, explanation.obstacles) == (True, [])
        assert explanation.summary == "ready: the next tick of its group dispatches it"
        assert (explanation.step_id, explanation.name, explanation.state) == (
            engine.refs["step"].id,
            "step",
            "Pending",
        )
        assert tick(engine.app).dispatched == 1


# The facts of the row -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "cause"),
    [("step", "delayed"), ("step:raise/ok", "its retry is delayed"), ("step:throttle/ok", "throttled")],
)
def test_a_step_that_is_not_due_says_until_when(engine: Engine, line: str, cause: str) -> None:
    engine.plant(line, group=GROUP, **({"delay": 90} if cause == "delayed" else {}))
    with engine.worker() as runner:
        if cause != "delayed":
            run_level(engine, runner, "step")
        obstacle = _only(engine, "step", "dispatch_after")
        due = engine["step"].dispatch_after
        assert due is not None
        assert obstacle.changes_at == due > engine.clock.now()
        assert obstacle.message == f"{cause} until {due:%Y-%m-%d %H:%M:%S.%f} UTC"
        assert not _explain(engine, "step").eligible
        engine.clock.advance((due - engine.clock.now()).total_seconds() - 0.001)
        runner.worker.heartbeat()
        assert _only(engine, "step", "dispatch_after").changes_at == due
        engine.clock.advance(0.001)
        assert _explain(engine, "step").obstacles == []


def test_a_child_names_its_parent_that_has_not_come_so_far(engine: Engine) -> None:
    engine.plant("front > root(child)", group=GROUP)
    with engine.worker() as runner:
        obstacle = _only(engine, "child", "parent")
        assert obstacle.steps == (engine.refs["root"].id,)
        assert "has not run yet" in obstacle.message
        run_level(engine, runner, "front")
        (root,) = engine.claim(runner, "root")
        assert "own code is not done" in _only(engine, "child", "parent").message
        run(runner, root)
        engine.app.cancel(engine.refs["root"], who="tester")
        assert "its parent has ended" in _only(engine, "child", "parent").message


def test_a_step_names_everything_before_it_in_its_block(engine: Engine) -> None:
    engine.plant("a, b > c, d > e", group=GROUP)
    with engine.worker() as runner:
        (a, _) = engine.claim(runner, "a", "b")
        assert _only(engine, "e", "index").steps == tuple(engine.refs[label].id for label in "abcd")
        obstacle = _only(engine, "c", "index")
        assert obstacle.steps == (engine.refs["a"].id, engine.refs["b"].id)
        assert obstacle.message == (
            f"index 2 comes after step {engine.refs['a'].id} (a, Running), step {engine.refs['b'].id} (b, Running)"
        )
        run(runner, a)
        assert _only(engine, "c", "index").steps == (engine.refs["b"].id,)


@pytest.mark.parametrize("rule", ["all_concluded", "all_ended", "any_concluded"])
def test_a_step_names_the_dependencies_that_it_waits_for(engine: Engine, rule: str) -> None:
    engine.plant("done, busy, later", group=GROUP, workflow=(workflow := "00000000-0000-4000-8000-000000000000"))
    labels = ["busy", "later"] if rule == "any_concluded" else ["done", "busy", "later"]
    engine.add("join", depends_on=[engine.refs[label] for label in labels], trigger_rule=rule, workflow=workflow)
    with engine.worker() as runner:
        done, _, later = engine.claim(runner, "done", "busy", "later")
        run(runner, done)
        runner._finisher.hand_back(later)
        obstacle = _only(engine, "join", "dependencies")
        assert obstacle.steps == (engine.refs["busy"].id, engine.refs["later"].id)
        assert rule in obstacle.message


def test_a_step_that_waits_for_ends_does_not_name_dependencies_that_ended_badly(engine: Engine) -> None:
    engine.plant("bad:fail, busy", group=GROUP, workflow=(workflow := "00000000-0000-4000-8000-000000000000"))
    both = [engine.refs["bad"], engine.refs["busy"]]
    engine.add("join", depends_on=both, trigger_rule="all_ended", workflow=workflow)
    with engine.worker() as runner:
        bad, _ = engine.claim(runner, "bad", "busy")
        run(runner, bad)
        assert _only(engine, "join", "dependencies").steps == (engine.refs["busy"].id,)


@pytest.mark.parametrize("line", ["bad:fail > behind", "bad:fail, behind<bad"])
def test_a_step_behind_a_failure_explains_that_its_condition_cannot_be_met(engine: Engine, line: str) -> None:
    engine.plant(line, group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "bad")
        conditions = {obstacle.condition: obstacle for obstacle in _explain(engine, "behind").obstacles}
        assert conditions.keys() in ({"index", "unsatisfiable"}, {"dependencies", "unsatisfiable"})
        assert "the next tick makes this step NotRunnable" in conditions["unsatisfiable"].message
        engine.tick()
        assert engine.state("behind") == "NotRunnable"


def test_a_step_written_by_plain_sql_says_that_it_gets_its_place_at_the_next_tick(engine: Engine) -> None:
    insert_sql(engine.app, action="behave", label="raw", retries=4, max_retries=3)
    with engine.worker():
        (raw,) = engine.app.steps()
        conditions = [obstacle.condition for obstacle in engine.app.explain(raw).obstacles]
        assert conditions == ["adoption", "retries"]
        (_, retries) = engine.app.explain(raw).obstacles
        assert retries.message == "its retries are exhausted (4 of 3): the next tick makes it Failed"


def test_a_step_of_a_paused_workflow_says_who_paused_it(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    engine.app.pause_workflow(engine.refs["step"], who="alice", why="look first")
    with engine.worker():
        obstacle = _only(engine, "step", "workflow")
    assert obstacle.message == "its workflow was paused by operator:alice at 2026-01-01 00:00:00 UTC: look first"


@pytest.mark.parametrize("missing", ["queue", "action", "worker"])
def test_a_step_that_no_live_worker_serves_says_so(engine: Engine, missing: str) -> None:
    action = "unknown" if missing == "action" else "behave"
    engine.refs["step"] = engine.app.enqueue(action, queue="candles")
    if missing == "worker":
        engine.app.inline_runner(queues=["candles"])  # and then it dies
        engine.clock.advance(3600)
    runner = engine.app.inline_runner(queues=["default" if missing == "queue" else "candles"])
    if missing == "worker":
        runner.close()
    obstacle = _only(engine, "step", "workers")
    assert obstacle.message == f"no live worker serves queue 'candles' and action '{action}'"
    assert not _explain(engine, "step").eligible


# Held back although it is eligible ----------------------------------------------------------------------------


def test_a_step_that_the_breaker_holds_back_is_eligible(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    engine.app.breaker.pause("alice", "deploy")
    with engine.worker():
        obstacle = _only(engine, "step", "breaker")
        assert obstacle.message == ("dispatching is paused by operator:alice since 2026-01-01 00:00:00 UTC: deploy")
        assert _explain(engine, "step").eligible
        assert _explain(engine, "step").summary.startswith("ready, but not dispatched")
        engine.change("DELETE FROM steps_settings")
        assert "is missing" in _only(engine, "step", "breaker").message


def test_a_step_whose_queue_is_full_is_eligible(engine: Engine) -> None:
    engine.plant("a, b, step", group=GROUP)
    with engine.worker(slots=1):
        engine.tick()
        obstacle = _only(engine, "step", "room")
        assert obstacle.message == "queue 'default' is full: 2 steps dispatched for 1 slots"
        assert _explain(engine, "step").eligible


# All of them, and none of them --------------------------------------------------------------------------------


def test_every_unmet_condition_is_listed_at_once(engine: Engine) -> None:
    engine.plant("root(base, front > filler)", group=GROUP)
    engine.add(
        "step",
        parent=engine.refs["root"],
        index=2,
        delay=60,
        depends_on=[engine.refs["base"]],
        queue="candles",
    )
    engine.app.pause_workflow(engine.refs["root"], who="alice")
    engine.app.breaker.pause("alice")
    explanation = _explain(engine, "step")
    assert [obstacle.condition for obstacle in explanation.obstacles] == [
        "dispatch_after", "parent", "index", "dependencies", "workflow", "workers", "breaker",
    ]  # fmt: skip
    assert all(obstacle.message in explanation.summary for obstacle in explanation.obstacles)
    as_dict: dict[str, Any] = explanation.as_dict()
    assert as_dict["obstacles"][0]["changes_at"] == engine.clock.now() + timedelta(seconds=60)


def test_steps_that_do_not_wait_for_dispatch_have_a_story(engine: Engine) -> None:
    engine.plant("root(busy, bad:fail > behind, !asleep), queued", group=GROUP)
    with engine.worker() as runner:
        engine.tick()
        (root,) = runner.claim(1)
        run(runner, root)
        engine.tick()
        assert "dispatched to queue 'default'" in _explain(engine, "queued").summary
        busy, bad = engine.claim(runner, "busy", "bad")
        assert f"running on {runner.worker.hostname}" in _explain(engine, "busy").summary
        assert f"waiting for step {busy.step_id} (busy, Running)" in _explain(engine, "root").summary
        assert "dormant exception handler" in _explain(engine, "asleep").summary
        run(runner, bad)
        engine.tick()
        assert f"because of step {bad.step_id} (bad, Failed)" in _explain(engine, "behind").summary
        assert f"(stepwell retry {bad.step_id} or stepwell skip {bad.step_id})" in _explain(engine, "behind").summary
        assert _explain(engine, "bad").summary == "ended Failed (error): Permanent: told to fail"
        run(runner, busy)
        assert _explain(engine, "busy").summary == "ended Completed"
        for label in engine.refs:
            assert not _explain(engine, label).eligible
        assert _explain(engine, "busy").obstacles == _explain(engine, "queued").obstacles == []
