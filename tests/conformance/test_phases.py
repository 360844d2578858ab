"""The state phases of a tick (SPEC 3, rows 2 to 8), each with its exact rule."""

from __future__ import annotations

import pytest

from tests.conformance.support import Engine
from tests.conformance.tick_support import GROUP, every_state, force, insert_sql, rows, run, run_level, tick

LEFT_ALONE = {"done": "Completed", "passed": "Skipped", "broken": "Failed", "halted": "Stopped", "ended": "Cancelled"}
ENDED_BADLY = ["Failed", "Stopped", "Cancelled", "NotRunnable"]

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


# 5 and 7: what becomes of parents ---------------------------------------------------------------------------


def test_a_parent_fails_with_a_message_that_names_its_children(engine: Engine) -> None:
    engine.plant("root(fine, bad:fail, halted:stop > after)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "fine", "bad", "halted")
        engine.tick()
    root = engine["root"]
    assert (root.state, root.reason) == ("Failed", "children_failed")
    bad, halted, after = (engine.refs[label].id for label in ("bad", "halted", "after"))
    assert root.error_message == (
        f"children did not conclude: step {bad} bad (Failed), step {halted} halted (Stopped), "
        f"step {after} after (NotRunnable)"
    )


def test_the_message_of_a_failed_parent_names_ten_children_and_counts_the_rest(engine: Engine) -> None:
    children = ", ".join(f"c{number}:fail" for number in range(13))
    engine.plant(f"root({children})", group=GROUP)
    engine.settle(slots=20)
    message = engine["root"].error_message
    assert message is not None
    assert message.count("(Failed)") == 10
    assert message.endswith(" and 3 more")


@pytest.mark.parametrize("state", ENDED_BADLY)
def test_one_child_that_did_not_conclude_fails_its_parent(engine: Engine, state: str) -> None:
    engine.plant("root(fine, bad)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        force(engine, "bad", state if state != "Stopped" else "Failed")
        if state == "Stopped":
            engine.app.retry(engine.refs["bad"], who="tester")
            (bad, fine) = engine.claim(runner, "bad", "fine")
            run(runner, fine)
            engine.app.database.transact(
                lambda tx: tx.row(
                    "stop", id=bad.step_id, token=bad.token, reason="x", duration=0, actor="t", now=engine.clock.now()
                )
            )
    engine.settle()
    assert engine.states() == {"root": "Failed", "fine": "Completed", "bad": state}


def test_a_parent_is_not_decided_while_a_child_is_unfinished_or_its_own_code_is_not_done(engine: Engine) -> None:
    engine.plant("root(bad:fail, slow)", group=GROUP)
    with engine.worker() as runner:
        (root,) = engine.claim(runner, "root")
        engine.tick()
        assert engine.states() == {"root": "Running", "bad": "Pending", "slow": "Pending"}
        run(runner, root)
        bad, slow = engine.claim(runner, "bad", "slow")
        run(runner, bad)
        engine.tick()
        assert engine.states() == {"root": "Running", "bad": "Failed", "slow": "Running"}
        run(runner, slow)
        engine.tick()
    assert engine.state("root") == "Failed"


def test_a_parent_completes_when_every_default_child_has_concluded(engine: Engine) -> None:
    engine.plant("root(fine, passed:skip > mid(leaf), !handler)", group=GROUP)
    engine.settle()
    assert engine.states() == {
        "root": "Completed", "fine": "Completed", "passed": "Skipped", "mid": "Completed", "leaf": "Completed",
        "handler": "NotRunnable",
    }  # fmt: skip
    assert engine.reasons("root", "mid") == dict.fromkeys(("root", "mid"), "children_concluded")


def test_a_parent_with_handlers_only_completes_and_they_sleep_on(engine: Engine) -> None:
    engine.plant("root(!handler)", group=GROUP)
    engine.settle()
    assert engine.states() == {"root": "Completed", "handler": "NotRunnable"}


# 6: what goes with a failure --------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["Failed", "Stopped"])
def test_every_unfinished_descendant_fails_with_its_parent_and_the_rest_stays(engine: Engine, end: str) -> None:
    with engine.worker() as runner:
        claims = every_state(engine, runner)
        force(engine, "root", end)

        report = tick(engine.app)

        gone = ("mid", "busy", "queued", "later", "deep")
        assert rows(report) == {"cascade_failures": len(gone)}
        assert engine.states(*gone) == dict.fromkeys(gone, "Failed")
        assert engine.reasons(*gone) == dict.fromkeys(gone, "parent_failed")
        assert engine.states(*LEFT_ALONE, "after", "asleep") == LEFT_ALONE | {
            "after": "NotRunnable",
            "asleep": "NotRunnable",
        }
        run(runner, claims["busy"])
    assert engine.state("busy") == "Failed"


@pytest.mark.parametrize("state", ENDED_BADLY)
@pytest.mark.parametrize(
    "line",
    [
        pytest.param("root(front, beside > behind > last)", id="index under a parent"),
        pytest.param("front, beside > behind > last", id="index at root"),
        pytest.param("front, beside, behind<front, last<behind", id="edges"),
        pytest.param("root(front, beside, behind<front, last<behind)", id="edges under a parent"),
    ],
)
def test_pending_steps_behind_one_that_ended_badly_become_not_runnable(engine: Engine, line: str, state: str) -> None:
    engine.plant(line, group=GROUP)
    with engine.worker() as runner:
        if "root" in engine.refs:
            run_level(engine, runner, "root")
        if state == "Stopped":
            (front,) = engine.claim(runner, "front")
            force(engine, "front", "Stopped")
            runner._finisher.let_go(front)
        else:
            force(engine, "front", state)
        engine.tick()
        assert engine.states("behind", "last") == dict.fromkeys(("behind", "last"), "NotRunnable")
        assert engine.reasons("behind", "last") == dict.fromkeys(("behind", "last"), "predecessor_failed")
        assert engine.state("beside") in ("Dispatched", "Running")


@pytest.mark.parametrize("line", ["root(front > behind)", "front, behind<front"])
def test_steps_behind_a_skipped_one_run(engine: Engine, line: str) -> None:
    engine.plant(line.replace("front", "front:skip", 1), group=GROUP)
    engine.settle()
    assert engine.states("front", "behind") == {"front": "Skipped", "behind": "Completed"}


@pytest.mark.parametrize(
    ("rule", "outcomes", "state"),
    [
        ("all_concluded", ("ok", "fail"), "NotRunnable"),
        ("all_ended", ("ok", "fail"), "Completed"),
        ("all_ended", ("fail", "stop"), "Completed"),
        ("any_concluded", ("fail", "skip"), "Completed"),
        ("any_concluded", ("fail", "stop"), "NotRunnable"),
    ],
)
def test_a_trigger_rule_that_can_still_be_met_keeps_a_step_pending(
    engine: Engine, rule: str, outcomes: tuple[str, str], state: str
) -> None:
    engine.plant(f"one:{outcomes[0]}, two:{outcomes[1]}", workflow=(workflow := "0" * 8 + "-0000-4000-8000-000000000000"))
    engine.add("join", depends_on=[engine.refs["one"], engine.refs["two"]], trigger_rule=rule, workflow=workflow)
    with engine.worker() as runner:
        one, two = engine.claim(runner, "one", "two")
        run(runner, one)
        engine.tick()
        if not (rule == "all_concluded" and outcomes[0] != "ok"):
            assert engine.state("join") == "Pending"
        run(runner, two)
    engine.settle()
    assert engine.state("join") == state


def test_every_pending_descendant_of_a_not_runnable_step_becomes_not_runnable(engine: Engine) -> None:
    engine.plant("root(bad:fail > parent(child(grandchild > later)))", group=GROUP)
    engine.settle()
    below = ("child", "grandchild", "later")
    assert engine.states("parent", *below) == dict.fromkeys(("parent", *below), "NotRunnable")
    assert engine.reasons(*below) == dict.fromkeys(below, "parent_not_runnable")
    assert engine.state("root") == "Failed"


def test_a_child_added_below_a_dormant_handler_sleeps_with_it(engine: Engine) -> None:
    engine.plant("root(fine, !handler)", group=GROUP)
    engine.add("late", parent=engine.refs["handler"])
    engine.tick()
    assert (engine["late"].state, engine["late"].reason) == ("NotRunnable", "parent_not_runnable")


def test_a_step_put_behind_one_that_has_failed_becomes_not_runnable(engine: Engine) -> None:
    engine.plant("front:fail", block=(block := "0" * 8 + "-0000-4000-8000-000000000001"))
    engine.settle()
    engine.add("behind", block=block, index=2)
    engine.add("dependent", depends_on=[engine.refs["front"]])
    engine.settle()
    assert engine.states() == {"front": "Failed", "behind": "NotRunnable", "dependent": "NotRunnable"}


# 8: exhausted retries ---------------------------------------------------------------------------------------


def test_a_pending_step_with_more_retries_than_allowed_fails(engine: Engine) -> None:
    insert_sql(engine.app, action="behave", label="spent", retries=4, max_retries=3, group=GROUP)
    insert_sql(engine.app, action="behave", label="last try", retries=3, max_retries=3, group=GROUP)
    engine.settle()
    by_label = {step.label: step for step in engine.app.steps()}
    assert (by_label["spent"].state, by_label["spent"].reason) == ("Failed", "max_retries_reached")
    assert (by_label["spent"].error_message or "").startswith("MaxRetriesReached")
    assert by_label["spent"].attempts == 0
    assert by_label["last try"].state == "Completed"


def test_a_step_that_is_retried_to_the_end_fails_with_its_first_error(engine: Engine) -> None:
    engine.plant("tired:raise", group=GROUP, max_retries=2)
    engine.settle()
    tired = engine["tired"]
    assert (tired.state, tired.reason, tired.attempts, tired.retries) == ("Failed", "max_retries_reached", 3, 2)
    assert tired.error_message == "RuntimeError: told to raise"
