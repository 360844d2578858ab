"""Operators cancel, skip, complete, fail and stop: the effect on the steps around it, with who and why on record."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import ActionRefused, IllegalTransition, State, StepNotFound, UnstorableValue
from stepwell.model.claimed import Claim
from stepwell.run.finish import Finisher
from stepwell.run.inline import InlineRunner
from tests.conformance.support.engine import Engine, returned
from tests.conformance.support.ticks import every_state

ACTS = {"cancel": "Cancelled", "skip": "Skipped", "complete": "Completed"}


def act(engine: Engine, name: str, label: str, **settings: Any) -> None:
    getattr(engine.app, name)(engine.refs[label], **{"who": "ann", "why": "by hand", **settings})


@pytest.mark.parametrize("name", ACTS)
def test_who_and_why_are_on_record(engine: Engine, name: str) -> None:
    engine.plant("a")
    act(engine, name, "a", who="Ann Lee", why="customer asked")
    last = engine.history("a")[-1]
    assert (str(last.to_state), last.actor, last.reason) == (ACTS[name], "operator:Ann Lee", "operator: customer asked")
    assert engine["a"].completed_at == engine.clock.now()


@pytest.mark.one_database
@pytest.mark.parametrize("name", [*ACTS, "retry"])
@pytest.mark.parametrize("who", ["", "a\0b", "a\nb", "x" * 201, "\ud800"], ids=ascii)
def test_an_operator_action_needs_a_name(engine: Engine, name: str, who: str) -> None:
    engine.plant("a:fail" if name == "retry" else "a")
    if name == "retry":
        engine.settle()
    before = engine.snapshot()
    with pytest.raises(ActionRefused, match="must be 1 to 200 printable characters"):
        act(engine, name, "a", who=who)
    assert engine.snapshot() == before


@pytest.mark.parametrize("name", [*ACTS, "retry"])
def test_any_reason_can_be_given(engine: Engine, name: str) -> None:
    reasons = {"a": "a\0b", "b": "\ud800", "c": "x" * 100_000, "d": "two\nlines"}
    engine.plant("a:fail, b:fail, c:fail, d:fail" if name == "retry" else "a, b, c, d")
    if name == "retry":
        engine.settle()
    for label, why in reasons.items():
        act(engine, name, label, why=why)
        reason = engine[label].reason or ""
        assert reason.startswith("operator: "), ascii(why)
        assert len(reason) < 2_000


@pytest.mark.parametrize("name", ACTS)
def test_an_unknown_step_is_not_found(engine: Engine, name: str) -> None:
    with pytest.raises(StepNotFound, match="999999"):
        getattr(engine.app, name)(999_999, who="ann")


# Cancel -------------------------------------------------------------------------------------------------------------


def test_cancelling_a_parent_cancels_its_descendants_and_its_dependents_become_not_runnable(engine: Engine) -> None:
    engine.plant("root(a(deep), !h) > after, other<root")
    act(engine, "cancel", "root")
    engine.settle()
    below = dict.fromkeys(("root", "a", "deep", "h"), "Cancelled")
    assert engine.states() == below | {"after": "NotRunnable", "other": "NotRunnable"}
    assert engine.reasons("a", "deep", "h") == dict.fromkeys(("a", "deep", "h"), "parent_cancelled")


def test_what_could_not_run_can_be_cancelled(engine: Engine) -> None:
    engine.plant("bad:fail > behind")
    engine.settle()
    act(engine, "cancel", "behind")
    assert engine.state("behind") == "Cancelled"


# Skip ---------------------------------------------------------------------------------------------------------------


def test_skipping_a_parent_skips_its_descendants_and_its_dependents_run(engine: Engine) -> None:
    engine.plant("root(a(deep), !h) > after")
    act(engine, "skip", "root")
    engine.settle()
    assert engine.states() == dict.fromkeys(("root", "a", "deep", "h"), "Skipped") | {"after": "Completed"}
    assert engine.reasons("a", "deep", "h") == dict.fromkeys(("a", "deep", "h"), "parent_skipped")


@pytest.mark.parametrize("name", ["skip", "complete"])
@pytest.mark.parametrize("outcome", ["fail", "stop"])
def test_what_failed_is_resolved_by_hand_and_all_goes_on(engine: Engine, name: str, outcome: str) -> None:
    engine.plant(f"l0(l1(bad:{outcome} > b(c)) > next) > last, dep<l0")
    engine.settle()
    assert "Completed" not in engine.states().values()
    act(engine, name, "bad")
    engine.settle()
    assert engine.state("bad") == ACTS[name]
    assert set(engine.states(*(set(engine.refs) - {"bad"})).values()) == {"Completed"}


@pytest.mark.parametrize("name", ["skip", "complete"])
def test_resolving_one_of_two_failures_opens_nothing(engine: Engine, name: str) -> None:
    engine.plant("root(one:fail, two:fail > behind)")
    engine.settle()
    act(engine, name, "one")
    engine.settle()
    assert engine.states() == {"root": "Failed", "one": ACTS[name], "two": "Failed", "behind": "NotRunnable"}
    act(engine, name, "two")
    engine.settle()
    assert engine.states("root", "behind") == {"root": "Completed", "behind": "Completed"}


@pytest.mark.parametrize("name", ["skip", "complete"])
def test_below_an_ancestor_that_ended_otherwise_only_the_step_itself_is_resolved(engine: Engine, name: str) -> None:
    engine.plant("root:fail(a > b)")
    engine.settle()
    act(engine, name, "a")
    engine.settle()
    assert engine.states() == {"root": "Failed", "a": ACTS[name], "b": "Failed"}


def test_a_running_step_that_is_skipped_blocks_its_dependents_until_its_lease_is_released(engine: Engine) -> None:
    engine.plant("a > b")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "a")
        act(engine, "skip", "a")
        engine.tick()
        assert engine.states() == {"a": "Skipped", "b": "Pending"}
        Finisher(engine.app.database).release_lease(claim)
        engine.claim(runner, "b")


def test_what_has_concluded_cannot_be_skipped_or_completed(engine: Engine) -> None:
    engine.plant("done, passed:skip")
    engine.settle()
    before = engine.snapshot()
    for label, state in engine.states().items():
        for name, done in {"skip": "skipped", "complete": "completed"}.items():
            with pytest.raises(ActionRefused, match=rf"\({label}\) is {state} and cannot be {done}"):
                act(engine, name, label)
    assert engine.snapshot() == before


# Complete -----------------------------------------------------------------------------------------------------------


def test_a_step_is_completed_by_hand_with_a_result(engine: Engine) -> None:
    engine.plant("a:fail > b")
    engine.settle()
    act(engine, "complete", "a", response={"total": 0})
    assert engine["a"].response == {"total": 0}
    assert engine["a"].reason == "operator: by hand"
    engine.settle()
    assert engine.state("b") == "Completed"
    with pytest.raises(UnstorableValue, match=r'result\["n"\]: NaN'):
        act(engine, "complete", "a", response={"n": float("nan")})


def test_what_waits_or_could_not_run_can_be_completed_without_running(engine: Engine) -> None:
    engine.plant("bad:fail > behind > last")
    engine.plant("waiting")
    act(engine, "complete", "waiting")
    engine.settle()
    act(engine, "complete", "behind")
    engine.settle()
    assert engine.path("waiting") == ["Pending", "Completed"]
    assert engine.path("behind") == ["Pending", "NotRunnable", "Completed"]
    assert engine.state("last") == "NotRunnable"


def test_a_parent_with_unfinished_children_cannot_be_completed(engine: Engine) -> None:
    engine.plant("root(a, b:fail)")
    before = engine.snapshot()
    with pytest.raises(ActionRefused, match=r"\(root\) has unfinished children"):
        act(engine, "complete", "root")
    assert engine.snapshot() == before
    engine.settle()
    act(engine, "complete", "root")
    engine.settle()
    assert engine.states() == {"root": "Completed", "a": "Completed", "b": "Failed"}


def test_what_is_handed_out_or_running_cannot_be_completed(engine: Engine) -> None:
    engine.plant("queued, running, waiting(child)")
    with engine.worker(slots=1) as runner:
        finisher = Finisher(engine.app.database)
        waiting, _ = engine.claim(runner, "waiting", "running")
        returned(finisher, waiting, None)
        for label in ("running", "waiting"):
            with pytest.raises(ActionRefused, match=rf"\({label}\) is Running"):
                act(engine, "complete", label)
        assert engine.state("running") == "Running"


# Fail and stop ------------------------------------------------------------------------------------------------------


def in_state(engine: Engine, runner: InlineRunner, state: str) -> None:
    """Bring the step `a` there; `waiting` is Running without a lease, for its child."""
    engine.plant("a(child)" if state == "waiting" else "a")
    if state == "Dispatched":
        engine.tick()
    elif state != "Pending":
        (claim,) = engine.claim(runner, "a")
        if state == "waiting":
            returned(runner._finisher, claim, None)
    assert engine.state("a") == ("Running" if state == "waiting" else state)


@pytest.mark.parametrize(
    ("state", "target"),
    [
        *((state, State.FAILED) for state in ("Pending", "Dispatched", "Running", "waiting")),
        *((state, State.STOPPED) for state in ("Running", "waiting")),
    ],
)
def test_an_operator_can_fail_or_stop_an_unfinished_step_and_retry_it_later(
    engine: Engine, state: str, target: State
) -> None:
    with engine.worker() as runner:
        in_state(engine, runner, state)
        engine.app.transition_to(engine.refs["a"], target, who="Ann Lee", why="it is stuck")
        last = engine.history("a")[-1]
        assert (last.to_state, last.actor, last.reason) == (target, "operator:Ann Lee", "operator: it is stuck")
        assert engine["a"].completed_at == engine.clock.now()
        if state == "Running":
            assert engine["a"].lease_worker == runner.worker.id
            runner._finisher.release_lease(Claim(engine.refs["a"].id, engine["a"].lease_token, runner.worker.id))
        engine.tick()
        engine.app.retry(engine.refs["a"], who="ann")
        assert engine.state("a") == ("Running" if state == "waiting" else "Pending")
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


def test_the_error_of_an_earlier_attempt_is_not_taken_for_the_operators_reason(engine: Engine) -> None:
    engine.plant("a:raise")
    engine.app.run_until_idle()
    assert engine["a"].reason == "retry"
    engine.app.transition_to(engine.refs["a"], State.FAILED, who="ann")
    assert engine.history("a")[-1].error is None


@pytest.mark.parametrize("target", [State.FAILED, State.STOPPED])
def test_a_failure_by_hand_is_followed_by_what_follows_any_failure(engine: Engine, target: State) -> None:
    engine.plant("root(a(deep(leaf)) > b, !h) > after, other<root")
    with engine.worker() as runner:
        for label in ("root", "a"):
            (claim,) = engine.claim(runner, label)
            returned(runner._finisher, claim, None)
    engine.app.transition_to(engine.refs["a"], target, who="ann")
    engine.settle()
    assert engine.states() == {
        "root": "Failed", "a": str(target), "deep": "Failed", "leaf": "Failed", "b": "NotRunnable", "h": "Completed",
        "after": "NotRunnable", "other": "NotRunnable",
    }  # fmt: skip
    assert engine.reasons("root", "deep", "leaf") == {
        "root": "children_failed", "deep": "parent_failed", "leaf": "parent_failed"
    }  # fmt: skip
    with pytest.raises(ActionRefused, match=r"cannot be retried because its ancestor .*\(a\) has ended"):
        engine.app.retry(engine.refs["deep"], who="ann")
    engine.app.retry(engine.refs["a"], who="ann")
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


@pytest.mark.parametrize("line", ["a, !h", "root(a, !h)"])
def test_a_handler_stays_dormant_until_the_lease_of_the_step_that_an_operator_failed_is_released(
    engine: Engine, line: str
) -> None:
    engine.plant(line)
    with engine.worker() as runner:
        if "root" in engine.refs:
            (root,) = engine.claim(runner, "root")
            returned(runner._finisher, root, None)
        (claim,) = engine.claim(runner, "a")
        engine.app.transition_to(engine.refs["a"], State.FAILED, who="ann")
        engine.tick()
        assert engine.state("h") == "NotRunnable"
        runner._finisher.release_lease(claim)
        engine.tick()
        assert engine.state("h") == "Dispatched"


def test_a_handler_wakes_for_what_was_failed_by_hand_before_its_parent_ran(engine: Engine) -> None:
    engine.plant("root(a, !h)")
    engine.app.transition_to(engine.refs["a"], State.FAILED, who="ann")
    engine.tick()
    engine.settle()
    assert engine.states() == {"root": "Failed", "a": "Failed", "h": "Completed"}


# Any state ----------------------------------------------------------------------------------------------------------

BY_HAND = {
    "Pending": {"Completed", "Skipped", "Cancelled", "Failed"},
    "Dispatched": {"Skipped", "Cancelled", "Failed"},
    "Running": {"Skipped", "Cancelled", "Failed", "Stopped"},
    "Failed": {"Pending", "Running", "Completed", "Skipped"},
    "Stopped": {"Pending", "Running", "Completed", "Skipped"},
    "Cancelled": {"Pending", "Running", "Completed", "Skipped"},
    "NotRunnable": {"Completed", "Skipped", "Cancelled"},
}


def test_a_move_that_no_person_makes_is_refused_with_both_states_and_changes_nothing(engine: Engine) -> None:
    with engine.worker() as runner:
        every_state(engine, runner)
        before = engine.snapshot()
        for label, origin in engine.states().items():
            for target in sorted(set(State) - BY_HAND.get(origin, set())):
                with pytest.raises((IllegalTransition, ActionRefused), match=rf"{origin}.* to {target}"):
                    engine.app.transition_to(engine.refs[label], target, who="ann")
        assert engine.snapshot() == before


@pytest.mark.parametrize(
    ("outcome", "target"),
    [("fail", State.PENDING), ("fail", State.COMPLETED), ("stop", State.SKIPPED), ("pending", State.CANCELLED)],
)
def test_a_person_may_move_a_step_as_the_table_says(engine: Engine, outcome: str, target: State) -> None:
    engine.plant("a" if outcome == "pending" else f"a:{outcome}")
    if outcome != "pending":
        engine.settle()
    engine.app.transition_to(engine.refs["a"], target, who="ann", why="by hand")
    last = engine.app.history(engine.refs["a"])[-1]
    assert (last.to_state, last.actor) == (target, "operator:ann")
