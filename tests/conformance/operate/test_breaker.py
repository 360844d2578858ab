"""The circuit breaker: it blocks Pending to Dispatched, and nothing else."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from stepwell import ActionRefused, NewStep, Stepwell
from stepwell.dispatch import tick as ticks
from stepwell.dispatch.phases import process_marks
from stepwell.operate.breaker import BreakerState
from stepwell.store.engine import settings
from stepwell.testing import behave
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import (
    GROUP,
    expect_line,
    force,
    insert_sql,
    process,
    run,
    run_level,
    send_line,
    tick,
    wait_for_exit,
)

pytestmark = pytest.mark.sqlite_file  # a drain waits for others


def _switch_off(engine: Engine, how: str) -> None:
    if how == "paused":
        engine.app.breaker.pause("alice", "deploy")
    else:
        engine.change("DELETE FROM steps_settings WHERE name = 'can_dispatch_steps'")


OFF = pytest.mark.parametrize("how", ["paused", "missing"])


@OFF
def test_while_it_is_off_nothing_is_dispatched(engine: Engine, how: str) -> None:
    engine.plant("ready, other, root(child)", group=GROUP)
    _switch_off(engine, how)
    with engine.worker():
        engine.tick()
        report = tick(engine.app)
        assert (report.breaker_on, report.dispatched) == (False, 0)
        assert set(engine.states().values()) == {"Pending"}
        engine.app.breaker.resume("alice")
        engine.tick()
        assert engine.states("ready", "other", "root") == dict.fromkeys(("ready", "other", "root"), "Dispatched")


@OFF
def test_while_it_is_off_all_cascades_go_on(engine: Engine, how: str) -> None:
    engine.plant("skipped(a), cancelled(b), failed(c), done(d), sad(e:fail)", group=GROUP)
    with engine.worker() as runner:
        run(runner, *engine.claim(runner, "skipped", "cancelled", "failed", "done", "sad"))
        engine.plant("bad:fail > behind, !handler", group=GROUP)
        a, b, c, d, e, bad = engine.claim(runner, "a", "b", "c", "d", "e", "bad")
        _switch_off(engine, how)
        insert_sql(engine.app, action="behave", label="spent", retries=4, group=GROUP)
        for claim in (a, b, c):
            runner._finisher.hand_back(claim)
        run(runner, d, e, bad)
        engine.app.skip(engine.refs["skipped"], who="tester")
        engine.app.cancel(engine.refs["cancelled"], who="tester")
        force(engine, "failed", "Failed")
        engine.tick()
    assert engine.states() == {
        "skipped": "Skipped", "a": "Skipped", "cancelled": "Cancelled", "b": "Cancelled", "failed": "Failed",
        "c": "Failed", "done": "Completed", "d": "Completed", "sad": "Failed", "e": "Failed", "bad": "Failed",
        "behind": "NotRunnable", "handler": "Pending",
    }  # fmt: skip
    (spent,) = [step for step in engine.app.steps() if step.label == "spent"]
    assert spent.state == "Failed"


@OFF
def test_while_it_is_off_claims_ends_and_operators_actions_go_on(engine: Engine, how: str) -> None:
    engine.plant("running, dispatched, failing:fail, cancelled, skipped, completed", group=GROUP)
    with engine.worker() as runner:
        engine.tick()
        first = runner.claim(1)
        _switch_off(engine, how)
        run(runner, *first, *runner.claim(2))
        assert engine.states("running", "dispatched", "failing") == {
            "running": "Completed",
            "dispatched": "Completed",
            "failing": "Failed",
        }
        engine.app.cancel(engine.refs["cancelled"], who="bob")
        engine.app.skip(engine.refs["skipped"], who="bob")
        engine.app.retry(engine.refs["failing"], who="bob")
        engine.plant("new")
        engine.tick()
        assert engine.states("cancelled", "skipped", "failing", "new") == {
            "cancelled": "Cancelled", "skipped": "Skipped", "failing": "Pending", "new": "Pending",
        }  # fmt: skip


def test_who_paused_it_why_and_since_when_is_known(engine: Engine) -> None:
    assert engine.app.breaker.state().dispatching
    engine.clock.advance(60)
    engine.app.breaker.pause("alice", "deploy 17")
    state = engine.app.breaker.state()
    assert (state.dispatching, state.changed_by, state.reason) == (False, "operator:alice", "deploy 17")
    assert state.changed_at == engine.clock.now()
    engine.plant("ready")
    (obstacle,) = [o for o in engine.app.explain(engine.refs["ready"]).obstacles if o.condition == "breaker"]
    assert "alice" in obstacle.message
    assert "deploy 17" in obstacle.message
    engine.app.breaker.resume("bob")
    assert engine.app.breaker.state().dispatching


def test_plain_sql_switches_the_breaker(engine: Engine) -> None:
    engine.plant("ready", group=GROUP)
    engine.change("UPDATE steps_settings SET value = 'false' WHERE name = 'can_dispatch_steps'")
    with engine.worker():
        assert tick(engine.app).dispatched == 0
        assert not engine.app.breaker.state().dispatching
        engine.change("UPDATE steps_settings SET value = 'true' WHERE name = 'can_dispatch_steps'")
        assert tick(engine.app).dispatched == 1


def test_the_database_refuses_any_value_of_the_breaker_but_true_and_false(engine: Engine) -> None:
    for value in ["off", "on", "TRUE", "False", "", "1", "yes"]:
        with pytest.raises((sqlite3.IntegrityError, psycopg.errors.CheckViolation)):
            engine.change("UPDATE steps_settings SET value = :value WHERE name = 'can_dispatch_steps'", value=value)
    assert engine.app.breaker.state().dispatching


def test_a_planned_end_is_reported_once_it_is_over_and_resumes_nothing(engine: Engine) -> None:
    engine.app.breaker.pause("alice", "deploy 17", planned=timedelta(minutes=20))
    end = engine.clock.now() + timedelta(minutes=20)
    state = engine.app.breaker.state()
    assert (state.planned, state.planned_end, state.late(engine.clock.now())) == (timedelta(minutes=20), end, None)
    engine.clock.advance(38 * 60)
    state = engine.app.breaker.state()
    assert not state.dispatching
    assert state.late(engine.clock.now()) == timedelta(minutes=18)
    engine.plant("ready")
    (obstacle,) = [o for o in engine.app.explain(engine.refs["ready"]).obstacles if o.condition == "breaker"]
    assert f"planned until {end:%Y-%m-%d %H:%M:%S} UTC" in obstacle.message
    engine.app.breaker.resume("bob")
    state = engine.app.breaker.state()
    assert (state.planned_end, state.late(engine.clock.now())) == (None, None)
    engine.app.breaker.pause("alice", "again")
    assert engine.app.breaker.state().planned_end is None


def test_a_switch_by_plain_sql_has_nothing_of_the_switch_before(engine: Engine) -> None:
    def switch(value: str, more: str = "") -> BreakerState:
        engine.change(f"UPDATE steps_settings SET value = :value{more} WHERE name = 'can_dispatch_steps'", value=value)
        return engine.app.breaker.state()

    engine.app.breaker.pause("alice", "deploy 17", planned=1200)
    paused = engine.app.breaker.state()
    assert switch("false") == paused, "nothing was switched"
    assert switch("true").changed_by == "plain SQL"
    again = switch("false")
    assert (again.dispatching, again.changed_by, again.reason, again.planned_end) == (False, "plain SQL", None, None)
    assert again.changed_at != paused.changed_at
    engine.app.breaker.resume("bob", "done")
    assert engine.app.breaker.state().changed_by == "operator:bob"
    named = switch("false", ", changed_by = 'dba', reason = 'vacuum'")
    assert (named.changed_by, named.reason) == ("dba", "vacuum")


@pytest.mark.one_database
@pytest.mark.parametrize("planned", [0, -5, float("nan"), float("inf"), 1e12, "20m", True])
def test_a_planned_end_is_a_duration_above_zero(engine: Engine, planned: Any) -> None:
    with pytest.raises(ActionRefused, match="not a duration above 0; nothing changed"):
        engine.app.breaker.pause("alice", planned=planned)
    assert engine.app.breaker.state().dispatching


@pytest.mark.one_database
def test_pausing_needs_a_name(engine: Engine) -> None:
    with pytest.raises(ActionRefused):
        engine.app.breaker.pause("")
    assert engine.app.breaker.state().dispatching


# Safe to restart ----------------------------------------------------------------------------------------------


def test_a_restart_is_safe_when_it_is_off_and_nothing_is_dispatched_or_runs_its_own_code(engine: Engine) -> None:
    engine.plant("here(child)", group="alpha")
    engine.plant("there", group="beta")
    with engine.worker() as runner:
        here, there = engine.claim(runner, "here", "there")
        safety = engine.app.breaker.safe_to_restart()
        assert (safety.safe, safety.dispatching, safety.dispatched, safety.running) == (False, True, 0, 2)
        run(runner, here)  # it waits for its child now
        engine.tick()
        engine.app.breaker.pause("alice")
        by_group = {group: engine.app.breaker.safe_to_restart(group) for group in ("alpha", "beta", "gamma")}
        assert (by_group["alpha"].dispatched, by_group["alpha"].running) == (1, 0)
        assert (by_group["beta"].dispatched, by_group["beta"].running) == (0, 1)
        assert [by_group[group].safe for group in ("alpha", "beta", "gamma")] == [False, False, True]
        assert str(by_group["beta"]) == "not safe to restart: 1 running their own code"
        run(runner, there, *runner.claim(10))
        assert engine.app.breaker.safe_to_restart().safe
        assert engine.app.breaker.safe_to_restart("beta").safe


def test_a_parent_that_merely_waits_is_no_reason_to_wait(engine: Engine) -> None:
    engine.plant("root(child > next)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "child")
        engine.app.breaker.pause("alice")
        engine.tick()
        assert engine.states() == {"root": "Running", "child": "Completed", "next": "Pending"}
        assert engine.app.breaker.safe_to_restart().safe
        assert engine.app.breaker.safe_to_restart(GROUP).safe


def test_a_restart_is_not_safe_until_the_lease_of_a_cancelled_step_is_released(engine: Engine) -> None:
    engine.plant("held", group=GROUP)
    with engine.worker() as runner:
        (held,) = engine.claim(runner, "held")
        engine.app.breaker.pause("alice")
        engine.app.cancel(engine.refs["held"], who="bob")
        assert engine.app.breaker.safe_to_restart().running == 1
        runner._finisher.release_lease(held)
        assert engine.app.breaker.safe_to_restart().safe


def test_a_drain_ends_although_a_parent_waits(engine: Engine) -> None:
    engine.plant("root(child > next), busy", group=GROUP)
    with engine.worker() as runner:
        root, busy = engine.claim(runner, "root", "busy")
        run(runner, root)
        claims = [busy, *engine.claim(runner, "child")]
        seen = []

        def work_goes_on(safety: object) -> None:
            seen.append(safety)
            if claims:
                run(runner, claims.pop())
                engine.tick()

        safety = engine.app.breaker.drain("alice", "deploy", watch=work_goes_on)
        assert safety.safe
        assert len(seen) == 3
        assert engine.states("root", "next") == {"root": "Running", "next": "Pending"}
        assert engine.app.breaker.state().changed_by == "operator:alice"


def test_a_drain_gives_up_when_its_time_is_over(engine: Engine) -> None:
    engine.plant("busy", group=GROUP)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "busy")
        started = engine.clock.now()
        safety = engine.app.breaker.drain("alice", timeout=5)
        assert (safety.safe, safety.running) == (False, 1)
        assert 5 <= (engine.clock.now() - started).total_seconds() < 6
        run(runner, claim)


def test_a_drain_does_not_forget_who_had_paused_before(engine: Engine) -> None:
    engine.app.breaker.pause("alice", "deploy")
    assert engine.app.breaker.drain("bob").safe
    assert engine.app.breaker.state().changed_by == "operator:alice"


def test_a_drain_of_what_is_paused_moves_the_planned_end_and_records_it(engine: Engine) -> None:
    engine.app.breaker.pause("alice", "deploy")
    assert engine.app.breaker.drain("bob", planned=600).safe
    state = engine.app.breaker.state()
    end = engine.clock.now() + timedelta(minutes=10)
    assert (state.changed_by, state.reason, state.planned_end) == ("operator:alice", "deploy", end)
    newest = engine.app.operations.newest(limit=1)[0]
    assert (newest.kind, newest.actor) == ("pause", "operator:bob")
    assert newest.parameters == {"planned_end": end.isoformat()}


# From another process, in the middle of it --------------------------------------------------------------------

_DISPATCHES = """
with Stepwell(url) as app:
    behave(app)
    dispatcher = app.dispatcher(batch_limit=3)
    say("ready")
    wait_for_a_line()
    quiet = 0
    while quiet < 30:
        reports = dispatcher.round()
        for report in reports:
            if report.error: raise report.error
        if any(report.dispatched for report in reports):
            say("dispatched")
        quiet = 0 if any(report.changed for report in reports) else quiet + 1
"""


@pytest.mark.slow
def test_after_a_pause_has_returned_nothing_more_is_dispatched_by_other_processes(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as app:
        behave(app)
        app.enqueue_many(NewStep(action="behave") for _ in range(2_000))
        runner = app.inline_runner(slots=2_000)
        with process(_DISPATCHES, shared_database_url, count=2) as children:
            for child in children:
                expect_line(child, "ready")
            for child in children:
                send_line(child)
            expect_line(children[0], "dispatched")
            app.breaker.pause("alice")
            dispatched = app.stats().states["Dispatched"]
            for child in children:
                wait_for_exit(child)
        assert 0 < dispatched < 2_000
        assert app.stats().states["Dispatched"] == dispatched
        assert app.check_invariants() == []
        runner.close()


def test_a_pause_that_comes_in_the_middle_of_a_tick_holds(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The breaker is read with the dispatch itself, not only when the tick begins."""

    def paused_meanwhile(tx: Any, *arguments: Any) -> int:
        now = engine.clock.now()
        settings.set_breaker(tx, value="false", actor="operator:alice", reason=None, now=now, planned_end=None)
        return process_marks(tx, *arguments)

    monkeypatch.setattr(ticks, "process_marks", paused_meanwhile)
    engine.plant("ready", group=GROUP)
    with engine.worker():
        report = tick(engine.app)
    assert (report.breaker_on, report.dispatched) == (False, 0)
    assert engine.state("ready") == "Pending"
