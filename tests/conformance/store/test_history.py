"""History: one row for every change of state, in its transaction, from which every moment can be rebuilt."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stepwell import State, Transition
from stepwell.run.finish import Finisher
from tests.conformance.support.engine import Engine


def fold(history: list[Transition]) -> State:
    """The present state, from the history alone."""
    present: State | None = None
    for transition in history:
        assert transition.from_state is present, history
        assert transition.to_state is not present, history
        present = transition.to_state
    assert present is not None
    return present


def live_an_eventful_life(engine: Engine) -> None:
    """Every kind of change there is: runs, failures, retries, throttling, cascades, handlers, people."""
    engine.plant("ok, again:raise/raise/ok, broken:fail, halted:stop, passed:skip, slow:throttle/throttle/ok")
    engine.plant("tree(bad:fail, good > behind(below), !cleanup(part), !second)")
    engine.plant("doomed(left(deep), right), victim, left_alone")
    engine.plant("source:fail, sink<source, any")
    engine.app.cancel(engine.refs["doomed"], who="ann", why="not needed")
    engine.app.skip(engine.refs["victim"], who="ben")
    engine.app.complete(engine.refs["left_alone"], who="cid", response=[1])
    engine.settle()
    engine.app.retry(engine.refs["doomed"], who="ann")
    engine.app.retry(engine.refs["source"], who="ann")
    engine.app.skip(engine.refs["bad"], who="ben")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "doomed")
        Finisher(engine.app.database).hand_back(claim)
    engine.settle()
    engine.app.complete(engine.refs["sink"], who="cid")


def test_history_folds_back_to_the_present_state_of_every_step(engine: Engine) -> None:
    live_an_eventful_life(engine)
    for label in engine.refs:
        step, history = engine[label], engine.history(label)
        assert fold(history) is step.state, label
        assert (history[-1].reason, history[-1].actor, history[-1].at) == (step.reason, step.actor, step.updated_at)


def test_history_rebuilds_any_earlier_moment(engine: Engine) -> None:
    engine.plant("root(a:raise/ok > b:fail, !h)")
    seen: list[tuple[int, dict[str, str]]] = []
    with engine.worker() as runner:
        for _ in range(60):
            newest = engine.sql("SELECT max(id) AS id FROM step_transitions")[0]["id"]
            seen.append((newest, engine.states()))
            if not engine.app.dispatch_once() and not runner.round():
                engine.clock.advance(40)
                runner.heartbeat()
    assert engine.state("root") == "Failed"
    assert len({newest for newest, _ in seen}) > 10
    for newest, states in seen:
        for label, state in states.items():
            assert str(fold([t for t in engine.history(label) if t.id <= newest])) == state


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("a", "Pending Dispatched Running Completed"),
        ("a:fail", "Pending Dispatched Running Failed"),
        ("a:stop", "Pending Dispatched Running Stopped"),
        ("a:skip", "Pending Dispatched Running Skipped"),
        ("a:raise/ok", "Pending Dispatched Running Pending Dispatched Running Completed"),
        ("a:retry/ok", "Pending Dispatched Running Pending Dispatched Running Completed"),
        ("a:throttle/ok", "Pending Dispatched Running Pending Dispatched Running Completed"),
        ("a(x)", "Pending Dispatched Running Completed"),
        ("a(x:fail)", "Pending Dispatched Running Failed"),
        ("before:fail > a", "Pending NotRunnable"),
        ("before:fail, !a", "NotRunnable Pending Dispatched Running Completed"),
        ("before, !a", "NotRunnable"),
    ],
)
def test_each_change_is_one_row_and_nothing_else_is(engine: Engine, line: str, path: str) -> None:
    engine.plant(line)
    engine.settle()
    assert engine.path("a") == path.split()


def test_history_says_who_and_the_ticks_that_did_it_are_on_record(engine: Engine) -> None:
    engine.plant("root(a:fail)")
    with engine.worker() as runner:
        for _ in range(10):
            engine.tick()
            runner.round()
        worker = f"worker:{runner.worker.id}"
    created, dispatched, running, failed = engine.history("a")
    assert created.actor is None
    assert dispatched.actor == f"tick:{engine['a'].tick_id}"
    assert [running.actor, failed.actor] == [worker, worker]
    by_tick = engine.history("root")[-1].actor
    known = {f"tick:{tick.id}" for tick in engine.app.ticks()}
    assert by_tick is not None
    assert {by_tick, dispatched.actor} <= known


def test_history_says_when_by_the_engine_s_clock(engine: Engine) -> None:
    start = engine.clock.now()
    engine.plant("a:retry/ok")
    engine.clock.advance(10)
    engine.settle()
    seconds = [(t.at - start) / timedelta(seconds=1) for t in engine.history("a")]
    assert seconds == [0, 10, 10, 10, 11, 11, 11]


def test_every_attempt_s_error_is_kept_and_the_step_keeps_the_first(engine: Engine) -> None:
    engine.plant("a:raise/retry/fail")
    engine.settle()
    errors = [(t.attempt, t.error) for t in engine.history("a") if t.error is not None]
    assert errors == [
        (1, "RuntimeError: told to raise"),
        (2, "Retry: told to retry"),
        (3, "Permanent: told to fail"),
    ]
    assert engine["a"].error_message == "RuntimeError: told to raise"
    assert "told to raise" in (engine["a"].error_stack_trace or "")


def test_an_error_of_an_earlier_attempt_is_not_recorded_again(engine: Engine) -> None:
    engine.plant("a:raise/throttle/stop")
    engine.settle()
    told = [(str(t.to_state), t.error) for t in engine.history("a") if t.from_state is State.RUNNING]
    assert told == [("Pending", "RuntimeError: told to raise"), ("Pending", None), ("Stopped", None)]


def test_attempts_count_claims_and_a_hand_back_gives_its_claim_back(engine: Engine) -> None:
    engine.plant("a")
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "a")
        Finisher(engine.app.database).hand_back(claim)
        engine.claim(runner, "a")
        attempts = [(str(t.to_state), t.attempt) for t in engine.history("a")]
    assert attempts == [
        ("Pending", 0),
        ("Dispatched", 0),
        ("Running", 1),
        ("Pending", 0),
        ("Dispatched", 0),
        ("Running", 1),
    ]


def test_the_reason_of_each_change_is_kept(engine: Engine) -> None:
    engine.plant("a:throttle/raise/ok, root(x:fail > y, !h)")
    engine.settle()
    engine.app.retry(engine.refs["x"], who="ann", why="the bank is back")
    reasons = {label: [t.reason for t in engine.history(label)] for label in engine.refs}
    assert reasons["a"] == [None, None, None, "throttled", None, None, "retry", None, None, None]
    assert reasons["x"] == [None, None, None, "error", "operator: the bank is back"]
    assert reasons["y"] == [None, "predecessor_failed", "revived"]
    assert reasons["h"] == ["dormant", "promoted", None, None, None]
    assert reasons["root"] == [None, None, None, "children_failed", "revived"]
