"""Phases 2 to 4 of a tick, each with its exact rule: skipped and cancelled parents, handlers."""

from __future__ import annotations

import pytest

from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, every_state, force, rows, run, run_level, tick

LEFT_ALONE = {"done": "Completed", "passed": "Skipped", "broken": "Failed", "halted": "Stopped", "ended": "Cancelled"}

# 2 and 3: what goes with a parent ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "phase", "state", "reason"),
    [
        ("skip", "skip_children", "Skipped", "parent_skipped"),
        ("cancel", "cascade_cancellations", "Cancelled", "parent_cancelled"),
    ],
)
def test_every_unfinished_or_not_runnable_descendant_goes_with_a_skipped_or_cancelled_parent(
    engine: Engine, action: str, phase: str, state: str, reason: str
) -> None:
    with engine.worker() as runner:
        claims = every_state(engine, runner)
        getattr(engine.app, action)(engine.refs["root"], who="tester")

        report = tick(engine.app)

        gone = ("after", "mid", "busy", "queued", "later", "deep", "asleep")
        assert rows(report) == {phase: len(gone)}
        assert engine.states(*gone) == dict.fromkeys(gone, state)
        assert engine.reasons(*gone) == dict.fromkeys(gone, reason)
        assert engine.states(*LEFT_ALONE) == LEFT_ALONE
        run(runner, claims["busy"])
    assert engine.state("busy") == state


@pytest.mark.parametrize(("action", "state"), [("skip", "Skipped"), ("cancel", "Cancelled")])
def test_a_dormant_handler_below_a_completed_child_goes_with_the_grandparent(
    engine: Engine, action: str, state: str
) -> None:
    with engine.worker() as runner:
        engine.plant("root(mid(leaf, !asleep), other)", group=GROUP)
        run_level(engine, runner, "root")
        run_level(engine, runner, "mid")
        (leaf,) = engine.claim(runner, "leaf")
        run(runner, leaf)
        engine.tick()
        assert engine.states("root", "mid", "asleep") == {
            "root": "Running",
            "mid": "Completed",
            "asleep": "NotRunnable",
        }

        getattr(engine.app, action)(engine.refs["root"], who="tester")
        engine.tick()

        assert engine.states("mid", "asleep", "other") == {"mid": "Completed", "asleep": state, "other": state}


@pytest.mark.parametrize("action", ["skip", "cancel"])
def test_nothing_outside_of_the_tree_goes_with_a_skipped_or_cancelled_parent(engine: Engine, action: str) -> None:
    engine.plant("root(left(leaf), right(twig) > last), stranger(kid)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "left", "right")

        getattr(engine.app, action)(engine.refs["left"], who="tester")
        engine.tick()

        gone = {"skip": "Skipped", "cancel": "Cancelled"}[action]
        assert engine.states("left", "leaf") == {"left": gone, "leaf": gone}
        assert engine.states("root", "right", "twig") == {"root": "Running", "right": "Running", "twig": "Dispatched"}
        assert engine.state("stranger") in ("Dispatched", "Running")
        assert engine.state("kid") == "Pending"


# 4: handlers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["fail", "stop"])
@pytest.mark.parametrize("line", ["root(bad:{} , fine, !handler)", "bad:{}, fine, !handler"])
def test_a_failed_or_stopped_default_step_promotes_the_handlers_of_its_block(
    engine: Engine, line: str, outcome: str
) -> None:
    engine.plant(line.format(outcome), group=GROUP)
    with engine.worker() as runner:
        if "root" in engine.refs:
            run_level(engine, runner, "root")
        run_level(engine, runner, "bad")

        report = tick(engine.app)

        assert rows(report) == {"promote_handlers": 1}
        assert (engine["handler"].state, engine["handler"].reason) == ("Pending", "promoted")
    engine.settle()
    assert engine.path("handler") == ["NotRunnable", "Pending", "Dispatched", "Running", "Completed"]


def test_cancelled_and_skipped_steps_promote_no_handler(engine: Engine) -> None:
    engine.plant("root(cut, passed, !handler)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        engine.app.cancel(engine.refs["cut"], who="tester")
        engine.app.skip(engine.refs["passed"], who="tester")
    engine.settle()
    assert engine.states() == {"root": "Failed", "cut": "Cancelled", "passed": "Skipped", "handler": "NotRunnable"}
    assert engine.reasons("handler") == {"handler": "dormant"}


def test_a_failed_handler_promotes_no_other_handler(engine: Engine) -> None:
    engine.plant("root(fine, !first:fail)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        force(engine, "first", "Pending")
        fine, first = engine.claim(runner, "fine", "first")
        engine.add("second", parent=engine.refs["root"], type="resolve-exception")
        run(runner, first, fine)
    engine.settle()
    assert engine.states("second", "root") == {"second": "NotRunnable", "root": "Completed"}


def test_a_handler_under_a_parent_that_does_not_run_stays_asleep(engine: Engine) -> None:
    engine.plant("root(bad:fail, !handler)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "bad")
        force(engine, "root", "Failed")
    engine.settle()
    assert engine.states("bad", "handler") == {"bad": "Failed", "handler": "NotRunnable"}


def test_a_handler_is_promoted_once(engine: Engine) -> None:
    engine.plant("root(soon:fail, late:fail, !handler)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        soon, late = engine.claim(runner, "soon", "late")
        run(runner, soon)
        run_level(engine, runner, "handler")
        assert engine.state("handler") == "Completed"

        run(runner, late)
    engine.settle()
    assert engine.path("handler") == ["NotRunnable", "Pending", "Dispatched", "Running", "Completed"]
    assert engine.state("root") == "Failed"


def test_what_stands_under_a_handler_is_promoted_with_it(engine: Engine) -> None:
    engine.plant("root(bad:fail, !handler(step(inner)))", group=GROUP)
    engine.settle()
    assert engine.states() == {
        "root": "Failed", "bad": "Failed", "handler": "Completed", "step": "Completed", "inner": "Completed",
    }  # fmt: skip


def test_a_handler_under_a_handler_sleeps_on_when_that_one_is_promoted(engine: Engine) -> None:
    engine.plant("root(bad:fail, !handler(step, !nested(deep)))", group=GROUP)
    engine.settle()
    assert engine.states("handler", "step", "nested", "deep") == {
        "handler": "Completed", "step": "Completed", "nested": "NotRunnable", "deep": "NotRunnable",
    }  # fmt: skip
    assert engine.reasons("nested", "deep") == {"nested": "dormant", "deep": "parent_not_runnable"}


def test_handlers_keep_their_own_order_and_do_not_wait_for_default_steps(engine: Engine) -> None:
    engine.plant("root(bad:fail, busy, !first > !second)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        bad, busy = engine.claim(runner, "bad", "busy")
        run(runner, bad)
        engine.tick()
        assert engine.states("first", "second", "busy") == {
            "first": "Dispatched",
            "second": "Pending",
            "busy": "Running",
        }
        run_level(engine, runner, "first")
        run_level(engine, runner, "second")
        run(runner, busy)
    engine.settle()
    assert engine.states("first", "second", "busy") == dict.fromkeys(("first", "second", "busy"), "Completed")


@pytest.mark.parametrize("when", ["before its parent runs", "while its parent waits"])
def test_a_handler_that_waits_cannot_run_behind_a_dormant_one_that_is_added_before_it(
    engine: Engine, when: str
) -> None:
    """It was retried by hand. Its parent would wait for it for ever."""
    engine.plant("root(child, !filler > !behind)", group=GROUP)
    engine.app.skip(engine.refs["filler"], who="tester")
    engine.app.cancel(engine.refs["behind"], who="tester")
    engine.app.retry(engine.refs["behind"], who="tester")
    engine.tick()
    assert (engine["behind"].state, engine["behind"].reason) == ("Pending", "operator")
    with engine.worker(slots=1) as runner:
        if when == "while its parent waits":
            run_level(engine, runner, "root")
        engine.add("front", parent=engine.refs["root"], type="resolve-exception", index=1)
        engine.tick()
        assert engine.reasons("front", "behind") == {"front": "dormant", "behind": "predecessor_failed"}
    assert engine.app.sweep() == []
    engine.settle()
    assert engine.states("root", "front", "behind") == {
        "root": "Completed", "front": "NotRunnable", "behind": "NotRunnable",
    }  # fmt: skip


def test_a_handler_behind_one_that_was_added_later_runs_after_it_when_the_block_fails(engine: Engine) -> None:
    engine.plant("root(bad:fail, !filler > !behind)", group=GROUP)
    engine.app.skip(engine.refs["filler"], who="tester")
    engine.app.cancel(engine.refs["behind"], who="tester")
    engine.app.retry(engine.refs["behind"], who="tester")
    engine.tick()
    engine.add("front", parent=engine.refs["root"], type="resolve-exception", index=1)
    engine.settle()
    assert engine.path("behind")[-5:] == ["NotRunnable", "Pending", "Dispatched", "Running", "Completed"]
    assert engine.states("root", "front") == {"root": "Failed", "front": "Completed"}
    ended, started = engine["front"].completed_at, engine["behind"].started_at
    assert ended is not None
    assert started is not None
    assert ended <= started


def test_a_handler_that_is_added_after_the_promotion_is_promoted_too_and_keeps_its_place(engine: Engine) -> None:
    engine.plant("root(bad:fail, busy, !running > !behind)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        bad, busy = engine.claim(runner, "bad", "busy")
        run(runner, bad)
        (handler,) = engine.claim(runner, "running")
        engine.add("late", parent=engine.refs["root"], type="resolve-exception", index=1)
        engine.tick()
        assert (engine["late"].state, engine["behind"].state) == ("Dispatched", "Pending")
        run(runner, handler)
        engine.tick()
        assert engine.state("behind") == "Pending"
        run_level(engine, runner, "late")
        run_level(engine, runner, "behind")
        run(runner, busy)
    engine.settle()
    assert engine.states("running", "late", "behind") == dict.fromkeys(("running", "late", "behind"), "Completed")


def test_the_outcome_of_a_handler_never_decides_its_parent(engine: Engine) -> None:
    engine.plant("root(bad:fail, slow, !handler:fail)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        bad, slow = engine.claim(runner, "bad", "slow")
        run(runner, bad)
        run_level(engine, runner, "handler")
        engine.app.skip(engine.refs["bad"], who="tester", why="it does not matter")
        run(runner, slow)
    engine.settle()
    assert engine.states() == {"root": "Completed", "bad": "Skipped", "slow": "Completed", "handler": "Failed"}
