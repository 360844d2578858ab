"""`explain` looks ahead: what a step will wait for once what holds it up is removed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stepwell.model.states import State
from stepwell.run.finish import Finisher
from tests.conformance.support.engine import Engine, failed, returned
from tests.conformance.support.ticks import GROUP, run, run_level

WORKFLOW = "00000000-0000-4000-8000-000000000000"


def roots(engine: Engine, label: str) -> list[tuple[str, str, bool]]:
    """The root causes: condition, the first step that waits for it, and whether it comes later."""
    names = {ref.id: name for name, ref in engine.refs.items()}
    return [
        (root.condition, names[root.steps[0]], root.is_later) for root in engine.app.explain(engine.refs[label]).roots
    ]


def follow(engine: Engine, label: str) -> None:
    """Do what is advised, in the order of the root causes."""
    for root in engine.app.explain(engine.refs[label]).roots:
        verb, number = root.advice[0].split()[1:]
        getattr(engine.app, verb)(int(number), who="tester")


def test_the_planned_time_of_what_a_retry_revives_is_named(engine: Engine) -> None:
    engine.plant("bad:fail", group=GROUP, block=WORKFLOW)
    engine.add("behind", block=WORKFLOW, index=2, delay=60)
    with engine.worker() as runner:
        due = engine.clock.now() + timedelta(seconds=60)
        run_level(engine, runner, "bad")
        engine.tick()
        assert roots(engine, "behind") == [("ended", "bad", False), ("dispatch_after", "behind", True)]
        explanation = engine.app.explain(engine.refs["behind"])
        assert explanation.expected_at == due
        assert [obstacle.changes_at for obstacle in explanation.afterwards] == [due]
        assert "it is revived with that; after that: delayed until" in explanation.summary


def test_a_retried_step_does_not_keep_its_plan(engine: Engine) -> None:
    engine.plant("step", group=GROUP, delay=60)
    with engine.worker():
        engine.app.cancel(engine.refs["step"], who="tester")
        assert roots(engine, "step") == [("ended", "step", False)]


def test_a_child_that_was_cancelled_makes_a_retried_parent_fail_again(engine: Engine) -> None:
    engine.plant("root(child), after<root", group=GROUP)
    with engine.worker():
        engine.app.cancel(engine.refs["child"], who="tester")
        engine.app.transition_to(engine.refs["root"], State.FAILED, who="tester")
        engine.tick()
        assert roots(engine, "after") == [("ended", "root", False), ("ended", "child", True)]
        follow(engine, "after")
    engine.settle()
    assert engine.state("after") == "Completed"


def test_a_parent_that_was_cancelled_after_its_children_is_named_before_them(engine: Engine) -> None:
    engine.plant("root(child), after<root", group=GROUP)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "root")
        returned(Finisher(engine.app.database), claim, None)
        for label in ("child", "root"):
            engine.app.cancel(engine.refs[label], who="tester")
        engine.tick()
        assert roots(engine, "after") == [("ended", "root", False), ("ended", "child", True)]
        follow(engine, "after")
    engine.settle()
    assert engine.state("after") == "Completed"


@pytest.mark.parametrize("line", ["bad, root(waits<bad)", "bad, root(mid(waits<bad(below)))"])
@pytest.mark.parametrize("how", [State.FAILED, State.STOPPED])
def test_the_ancestor_is_named_once_nothing_else_is_in_the_way(engine: Engine, line: str, how: State) -> None:
    engine.plant(line, group=GROUP)
    finisher = Finisher(engine.app.database)
    with engine.worker() as runner:
        bad, root = engine.claim(runner, "bad", "root")
        failed(finisher, bad, "no")
        engine.tick()
        returned(finisher, root, None)
        engine.app.transition_to(engine.refs["root"], how, who="tester")
        engine.tick()
        engine.app.complete(engine.refs["bad"], who="tester")
        engine.tick()
        assert roots(engine, "waits") == [("ended", "root", False)]
        assert "nothing before it is in the way now" in engine.app.explain(engine.refs["waits"]).summary
        follow(engine, "waits")
    engine.settle()
    assert engine.state("waits") == "Completed"


def test_a_child_that_ended_badly_is_named_before_its_parent_fails_through_it(engine: Engine) -> None:
    engine.plant("root(child), after<root", group=GROUP)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "root")
        engine.app.cancel(engine.refs["child"], who="tester")
        assert roots(engine, "after") == [("running", "root", False), ("ended", "child", True)]
        message = f"it fails unless these children are revived: step {engine.refs['child'].id} (child, Cancelled)"
        (behind, _) = engine.app.explain(engine.refs["after"]).behind
        assert [obstacle.message for obstacle in behind.afterwards] == [message]
        run(runner, claim)


def test_what_children_of_a_step_that_has_not_run_will_wait_for_is_named(engine: Engine) -> None:
    engine.plant("root, after<root", group=GROUP)
    engine.add("planned", parent=engine.refs["root"], delay=60)
    engine.add("elsewhere", parent=engine.refs["root"], queue="candles")
    engine.add("usual", parent=engine.refs["root"])
    runner = engine.app.inline_runner(queues=["default"])
    assert set(roots(engine, "after")) == {
        ("pending", "root", False), ("dispatch_after", "planned", True), ("workers", "elsewhere", True),
    }  # fmt: skip
    explanation = engine.app.explain(engine.refs["after"])
    assert explanation.expected_at == engine.clock.now() + timedelta(seconds=60)
    assert {step.name for step in explanation.behind} == {"root", "planned", "elsewhere"}
    assert roots(engine, "root") == []  # it runs without them
    runner.close()


def test_what_holds_up_everything_is_named_once(engine: Engine) -> None:
    engine.plant("root(mid:fail > behind), after<root", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "mid")
        engine.app.breaker.pause("alice")
        engine.tick()
        (retry, later) = engine.app.explain(engine.refs["after"]).roots
        assert (later.condition, later.is_later, retry.condition) == ("breaker", True, "ended")
        explanation = engine.app.explain(engine.refs["after"])
        assert [obstacle.condition for obstacle in explanation.afterwards] == ["breaker"]
        assert all(step.afterwards == [] for step in explanation.behind)


def test_the_words_of_an_error_do_not_decide_when_a_step_can_be_retried(engine: Engine) -> None:
    engine.plant("bad:fail > after", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "bad")
        engine.change("UPDATE steps SET last_error = 'the row was skipped' WHERE id = :id", id=engine.refs["bad"].id)
        (root,) = engine.app.explain(engine.refs["after"]).roots
        assert (root.message.endswith("skipped"), root.condition, root.is_later) == (True, "ended", False)


def test_an_ancestor_is_retried_before_what_is_below_it_also_if_two_steps_lead_to_it(engine: Engine) -> None:
    """That `leaf` is below `mid`, which is revived with `root`, repeats what is said of `mid`."""
    engine.plant("root(mid(leaf))", group=GROUP, workflow=WORKFLOW)
    engine.add("behind", workflow=WORKFLOW, depends_on=[engine.refs["mid"], engine.refs["leaf"]])
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "mid")
        engine.app.cancel(engine.refs["leaf"], who="tester")
        engine.app.cancel(engine.refs["root"], who="tester")
        engine.tick()
        assert engine.state("behind") == "NotRunnable"
        assert roots(engine, "behind") == [("ended", "root", False), ("ended", "leaf", True)]
        follow(engine, "behind")
    engine.settle()
    assert engine.state("behind") == "Completed"


def test_an_ancestor_is_retried_before_what_failed(engine: Engine) -> None:
    """In the other order, the retry of `bad` revives nothing below `root`, and nothing else does afterwards."""
    engine.plant("bad, root(mid)", group=GROUP, workflow=WORKFLOW)
    engine.add("behind", parent=engine.refs["root"], depends_on=[engine.refs["bad"]])
    with engine.worker() as runner:
        bad, root = engine.claim(runner, "bad", "root")
        run(runner, root)
        engine.app.transition_to(bad.step_id, State.FAILED, who="tester")
        runner._finisher.release_lease(bad)
        engine.tick()
        assert engine.state("behind") == "NotRunnable"
        engine.app.transition_to(root.step_id, State.FAILED, who="tester")
        engine.tick()
        assert roots(engine, "behind") == [("ended", "root", False), ("ended", "bad", True)]
        follow(engine, "behind")
        assert engine.state("behind") == "Pending"
    engine.settle()
    assert engine.state("behind") == "Completed"


def test_what_is_below_an_ancestor_that_has_concluded_can_only_be_skipped(engine: Engine) -> None:
    engine.plant("root(mid(leaf)), after<leaf", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        engine.app.cancel(engine.refs["mid"], who="tester")
        engine.tick()
        engine.app.complete(engine.refs["root"], who="tester")
        assert engine.states("root", "leaf", "after") == {
            "root": "Completed", "leaf": "Cancelled", "after": "NotRunnable",
        }  # fmt: skip
        (found,) = engine.app.explain(engine.refs["after"]).roots
        assert found.advice == (f"stepwell skip {engine.refs['leaf'].id}",)
        assert "cannot be revived because its ancestor has concluded" in found.message
        follow(engine, "after")
    engine.settle()
    assert engine.state("after") == "Completed"


def test_a_step_that_will_need_a_key_names_who_holds_it(engine: Engine) -> None:
    engine.add("holder", group=GROUP, concurrency_key="k")
    engine.plant("front", group=GROUP, workflow=WORKFLOW)
    engine.add("step", workflow=WORKFLOW, depends_on=[engine.refs["front"]], concurrency_key="k")
    with engine.worker() as runner:
        claims = engine.claim(runner, "holder", "front")
        (found,) = engine.app.explain(engine.refs["step"]).roots
        assert (found.condition, set(found.steps)) == ("running", {engine.refs["holder"].id, engine.refs["front"].id})
        run(runner, *claims)
    engine.settle()


@pytest.mark.parametrize("maximum", [1, 2])
def test_the_limit_that_is_advised_lets_another_step_run(engine: Engine, maximum: int) -> None:
    engine.plant("a, b, step", group=GROUP)
    with engine.worker() as runner:
        engine.tick()
        claims = runner.claim(2)
        engine.app.limits.set("queue", "default", maximum)
        (found,) = engine.app.explain(engine.refs["step"]).roots
        assert found.advice == ("stepwell limits --queue default=3",)
        engine.app.limits.set("queue", "default", 3)
        claims += runner.claim(1)
        assert len(claims) == 3
        run(runner, *claims)
