"""Cancel, skip and complete by hand: what each means for the steps around it, with who and why on record."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import ActionRefused, IllegalTransition, State, StepNotFound, UnstorableValue
from stepwell.run.finish import Finisher
from tests.conformance.support import Engine, returned

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


@pytest.mark.parametrize("name", [*ACTS, "retry"])
@pytest.mark.parametrize("who", ["", "a\0b", "a\nb", "x" * 201, "\ud800"], ids=ascii)
def test_nobody_acts_without_a_name(engine: Engine, name: str, who: str) -> None:
    engine.plant("a:fail" if name == "retry" else "a")
    if name == "retry":
        engine.settle()
    before = engine.snapshot()
    with pytest.raises(ActionRefused, match="say who you are"):
        act(engine, name, "a", who=who)
    assert engine.snapshot() == before


@pytest.mark.parametrize("name", [*ACTS, "retry"])
@pytest.mark.parametrize("why", ["a\0b", "\ud800", "x" * 100_000, "two\nlines"], ids=lambda why: ascii(why)[:10])
def test_any_reason_can_be_given(engine: Engine, name: str, why: str) -> None:
    engine.plant("a:fail" if name == "retry" else "a")
    if name == "retry":
        engine.settle()
    act(engine, name, "a", why=why)
    reason = engine["a"].reason or ""
    assert reason.startswith("operator: ")
    assert len(reason) < 2_000


@pytest.mark.parametrize("name", ACTS)
def test_an_unknown_step_is_not_found(engine: Engine, name: str) -> None:
    with pytest.raises(StepNotFound, match="999999"):
        getattr(engine.app, name)(999_999, who="ann")


# Cancel -------------------------------------------------------------------------------------------------------------


def test_a_cancelled_parent_takes_all_below_along_and_what_stands_behind_cannot_run(engine: Engine) -> None:
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


def test_a_skipped_parent_takes_all_below_along_and_what_stands_behind_runs(engine: Engine) -> None:
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
def test_one_of_two_failures_resolved_lets_nobody_pass(engine: Engine, name: str) -> None:
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


def test_a_running_step_that_is_skipped_holds_its_place_until_its_process_lets_go(engine: Engine) -> None:
    engine.plant("a > b")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "a")
        act(engine, "skip", "a")
        engine.tick()
        assert engine.states() == {"a": "Skipped", "b": "Pending"}
        Finisher(engine.app.database).let_go(claim)
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
    with pytest.raises(UnstorableValue, match=r"response\.n: nan"):
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


@pytest.mark.parametrize("target", [State.DISPATCHED, State.FAILED, State.STOPPED, State.NOT_RUNNABLE, State.PENDING])
def test_a_move_that_no_person_makes_names_both_states_and_changes_nothing(engine: Engine, target: State) -> None:
    engine.plant("a")
    engine.settle()
    before = engine.snapshot()
    with pytest.raises(IllegalTransition, match=f"Completed.*{target}"):
        engine.app.transition_to(engine.refs["a"], target, who="ann")
    assert engine.snapshot() == before
