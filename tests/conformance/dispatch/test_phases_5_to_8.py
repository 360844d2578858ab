"""Phases 5 to 8 of a tick, each with its exact rule: parents, failures, exhausted retries."""

from __future__ import annotations

import pytest

from stepwell.store.engine import runs
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, every_state, force, insert_sql, rows, run, run_level, tick

LEFT_ALONE = {"done": "Completed", "passed": "Skipped", "broken": "Failed", "halted": "Stopped", "ended": "Cancelled"}
ENDED_BADLY = ["Failed", "Stopped", "Cancelled", "NotRunnable"]

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
                lambda tx: runs.stop(
                    tx,
                    id=bad.step_id,
                    token=bad.token,
                    reason="x",
                    duration=0,
                    fingerprint="x",
                    actor="t",
                    now=engine.clock.now(),
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
            runner._finisher.release_lease(front)
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
    engine.plant(
        f"one:{outcomes[0]}, two:{outcomes[1]}", workflow=(workflow := "0" * 8 + "-0000-4000-8000-000000000000")
    )
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


def test_a_child_put_behind_one_that_ended_badly_becomes_not_runnable_before_its_parent_has_run(engine: Engine) -> None:
    engine.plant("root(front > behind)", group=GROUP)
    engine.app.cancel(engine.refs["front"], who="tester")
    engine.tick()
    engine.add("late", parent=engine.refs["root"], index=3)
    engine.add("beside", parent=engine.refs["root"], index=1)
    engine.tick()
    assert engine.states("front", "behind", "late", "beside") == {
        "front": "Cancelled", "behind": "NotRunnable", "late": "NotRunnable", "beside": "Pending",
    }  # fmt: skip
    assert engine["late"].reason == "predecessor_failed"
    engine.settle()
    assert engine.states("root", "beside") == {"root": "Failed", "beside": "Completed"}


@pytest.mark.parametrize("what", ["a step is put before it", "its workflow is paused"])
@pytest.mark.parametrize("line", ["root(front > behind)", "front > behind"])
def test_a_step_that_is_retried_behind_a_failure_becomes_not_runnable_whatever_happens_before_the_next_tick(
    engine: Engine, line: str, what: str
) -> None:
    engine.plant(line, group=GROUP)
    for label in ("front", "behind"):
        engine.app.cancel(engine.refs[label], who="tester")
    engine.tick()
    engine.app.retry(engine.refs["behind"], who="tester")
    if what == "its workflow is paused":
        engine.app.pause_workflow(engine.refs["behind"], who="tester")
    elif "root" in engine.refs:
        engine.add("late", parent=engine.refs["root"], index=1)
    else:
        engine.add("late", block=engine["front"].block_uuid, index=1)
    engine.tick()
    assert (engine["behind"].state, engine["behind"].reason) == ("NotRunnable", "predecessor_failed")
    assert engine.app.sweep() == []


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
