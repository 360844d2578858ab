"""The reaper: steps of dead workers are retried, and the deaths counted; stalled groups are reported."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from stepwell import Reschedule, Skip, Stepwell
from stepwell.events import FailureNotification, GroupStalled, StepRescued
from stepwell.model.leases import LEASE_SECONDS
from stepwell.operate.dead_leases import RESCUE_SPREAD_SECONDS
from stepwell.operate.reaper import (
    DEAD_WORKER_RETENTION_SECONDS,
    ROUND_SECONDS,
    STALLED_SECONDS,
    UNCLAIMED_SECONDS,
)
from stepwell.operate.reaper_part import HEARTBEAT_GRACE_LEASES, ReaperPart
from stepwell.run.claim import MARGIN_SECONDS
from tests.conformance.support.engine import Engine, raised, returned
from tests.conformance.support.ticks import GROUP, run_level


@pytest.fixture
def rescued(app: Stepwell) -> list[StepRescued]:
    """The events of rescues."""
    told: list[StepRescued] = []
    app.events.on(StepRescued)(told.append)
    return told


@pytest.fixture
def alarms(app: Stepwell) -> list[GroupStalled]:
    told: list[GroupStalled] = []
    app.events.on(GroupStalled)(told.append)
    return told


def _die(engine: Engine) -> None:
    """Every worker of now is not heard of any more."""
    engine.clock.advance(LEASE_SECONDS + 1)


# Dead leases ------------------------------------------------------------------------------------------------------


def test_a_step_whose_worker_died_returns_to_pending_three_times_and_then_fails_as_poison(
    engine: Engine, rescued: list[StepRescued]
) -> None:
    engine.plant("step", group=GROUP)
    failed: list[FailureNotification] = []
    engine.app.events.on(FailureNotification)(failed.append)
    reaper = engine.app.reaper()
    for count in (1, 2, 3, 4):
        with engine.worker() as runner:
            (claim,) = engine.claim(runner, "step")
            assert reaper.round().rescued == []
            _die(engine)
            reaped = reaper.round()
            assert returned(runner._finisher, claim, "late") is None
        step = engine["step"]
        assert (step.rescues, step.attempts, step.retries, step.not_completed) == (count, count, 0, 0)
        assert step.lease_worker is None
        if count <= 3:
            assert (step.state, step.reason, reaped.rescued, reaped.poisoned) == ("Pending", "rescued", [step.id], [])
            assert step.dispatch_after is not None
            waits = (step.dispatch_after - engine.clock.now()).total_seconds()
            assert 0 <= waits <= RESCUE_SPREAD_SECONDS * (count - 1)
            engine.clock.advance(waits)
        else:
            assert (step.state, step.reason, reaped.rescued, reaped.poisoned) == ("Failed", "poison", [], [step.id])
    assert "its last heartbeat was at" in str(engine["step"].error_message)
    assert [event.poison for event in rescued] == [False, False, False, True]
    assert [(event.step_id, event.reason) for event in failed] == [(engine["step"].id, "poison")]
    assert reaper.round() == type(reaped)(stalled=[])


def test_steps_whose_worker_died_twice_are_retried_one_by_one(engine: Engine) -> None:
    """One of them may have ended their worker; the others are to be done before it does so again."""
    engine.plant(", ".join(f"s{number}" for number in range(20)), group=GROUP)
    for death in (1, 2):
        with engine.worker(slots=20) as runner:
            engine.claim(runner, *engine.refs)
            _die(engine)
            assert len(engine.app.reaper().round().rescued) == 20
        moments = [engine[label].dispatch_after for label in engine.refs]
        if death == 1:
            assert set(moments) == {engine.clock.now()}
    assert len(set(moments)) == 20


def test_the_retries_of_a_worker_with_a_short_lease_are_spread_over_a_short_time(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    engine.change("UPDATE steps SET rescues = 2")
    with engine.worker() as runner:
        runner.worker.alive_seconds = 3.0
        runner.worker.heartbeat()
        engine.claim(runner, "step")
        engine.clock.advance(4)
        assert engine.app.reaper().round().rescued == [engine["step"].id]
    retry_at = engine["step"].dispatch_after
    assert retry_at is not None
    assert retry_at <= engine.clock.now() + timedelta(seconds=RESCUE_SPREAD_SECONDS * 2 * 3.0 / LEASE_SECONDS)


def test_a_step_of_a_worker_that_has_signed_off_goes_back(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.claim(runner, "step")
    assert engine.app.reaper().round().rescued == [engine["step"].id]
    assert "the worker is no longer registered" in str(engine["step"].error_message)
    engine.settle()
    assert engine.state("step") == "Completed"


def test_a_lease_ends_at_its_deadline_even_if_its_worker_lives(engine: Engine) -> None:
    timeout, cooldown = 10.0, 5.0
    engine.add("step", group=GROUP, timeout=timeout, cooldown=cooldown)
    with engine.worker() as runner:
        engine.claim(runner, "step")
        engine.clock.advance(timeout + cooldown + MARGIN_SECONDS - 1)
        runner.worker.heartbeat()
        assert engine.app.reaper().round().rescued == []
        engine.clock.advance(1)
        assert engine.app.reaper().round().rescued == [engine["step"].id]
    assert "the step ran past its deadline" in str(engine["step"].error_message)


def test_without_a_timeout_a_lease_holds_as_long_as_its_worker_lives(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.claim(runner, "step")
        for _ in range(100):
            engine.clock.advance(LEASE_SECONDS - 1)
            runner.worker.heartbeat()
            assert engine.app.reaper().round().rescued == []
        assert engine.state("step") == "Running"


def test_a_parent_whose_own_code_is_done_is_never_run_again(engine: Engine) -> None:
    engine.plant("root(child)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        engine.claim(runner, "child")
        _die(engine)
        assert engine.app.reaper().round().rescued == [engine["child"].id]
        root = engine["root"]
        assert (root.state, root.rescues, root.attempts) == ("Running", 0, 1)
    engine.settle()
    assert engine.states() == {"root": "Completed", "child": "Completed"}
    assert engine["root"].attempts == 1


@pytest.mark.parametrize("action", ["cancel", "skip"])
def test_the_lease_of_a_step_that_was_ended_from_outside_is_released_when_its_worker_dies(
    engine: Engine, action: str
) -> None:
    engine.plant("held > behind", group=GROUP)
    with engine.worker() as runner:
        engine.claim(runner, "held")
        getattr(engine.app, action)(engine.refs["held"], who="tester")
        _die(engine)
        reaped = engine.app.reaper().round()
    held = engine["held"]
    assert (reaped.leases_released, reaped.rescued, held.rescues, held.lease_worker) == ([held.id], [], 0, None)
    engine.settle()
    assert engine.states() == {
        "held": {"cancel": "Cancelled", "skip": "Skipped"}[action],
        "behind": {"cancel": "NotRunnable", "skip": "Completed"}[action],
    }


def test_a_poison_step_has_the_effects_of_any_failure(engine: Engine) -> None:
    engine.plant("root(poison > behind, !handler)", group=GROUP)
    reaper = engine.app.reaper()
    with engine.worker() as runner:
        run_level(engine, runner, "root")
    for _ in range(4):
        with engine.worker() as runner:
            engine.claim(runner, "poison")
            _die(engine)
            reaper.round()
        engine.clock.advance(3 * RESCUE_SPREAD_SECONDS)
    engine.settle()
    assert engine.states() == {
        "root": "Failed",
        "poison": "Failed",
        "behind": "NotRunnable",
        "handler": "Completed",
    }


def test_two_reapers_rescue_a_step_once(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.claim(runner, "step")
        _die(engine)
        first, second = engine.app.reaper(), engine.app.reaper()
        assert len(first.round().rescued) + len(second.round().rescued) == 1
    assert engine["step"].rescues == 1


def test_a_rescued_step_needs_no_tick_before_a_worker_may_claim_it(engine: Engine) -> None:
    """A dispatcher may have died with the lock of its group."""
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.claim(runner, "step")
        _die(engine)
        assert engine.app.reaper().round().rescued == [engine["step"].id]
        (row,) = engine.app.database.read(lambda tx: tx.fetch("SELECT status FROM steps_agenda", {}))
        assert row == {"status": "open"}


def test_the_steps_of_a_dead_worker_are_rescued_in_one_transaction(engine: Engine) -> None:
    """It may hold hundreds: with a transaction each, most of them would wait for a second."""
    labels = [f"step{number}" for number in range(20)]
    engine.plant(", ".join(labels), group=GROUP)
    with engine.worker(slots=len(labels)) as runner:
        engine.tick()
        assert len(runner.claim(len(labels))) == len(labels)
        _die(engine)
        commits: list[str] = []
        engine.app.database.watch = lambda moment, tx: commits.append(moment)
        assert len(engine.app.reaper().round().rescued) == len(labels)
        engine.app.database.watch = None
        assert commits.count("after") < 5


def test_a_step_that_cannot_be_rescued_keeps_no_other_from_it(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.plant("first, bad, last", group=GROUP)
    with engine.worker(slots=3) as runner:
        engine.tick()
        assert len(runner.claim(3)) == 3
        _die(engine)
        reaper = engine.app.reaper()
        bad = engine["bad"].id

        def limit_of(tx: Any, step_id: int) -> int:
            if step_id == bad:
                raise ValueError("a row of plain SQL")
            return 3

        reaper._dead_leases._limit_of = limit_of
        assert sorted(reaper.round().rescued) == sorted(engine[label].id for label in ("first", "last"))
        assert engine.state("bad") == "Running"
        assert f"cannot end the lease of step {bad}" in caplog.text
        assert engine.app.reaper().round().rescued == [bad]


def test_a_worker_whose_heartbeat_comes_at_the_last_moment_keeps_its_step(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.claim(runner, "step")
        _die(engine)
        reaper = engine.app.reaper()
        dead_leases = reaper._dead_leases
        end = dead_leases._end

        def after_a_heartbeat(*arguments: Any) -> None:
            runner.worker.heartbeat()
            end(*arguments)

        monkeypatch.setattr(dead_leases, "_end", after_a_heartbeat)
        assert reaper.round().rescued == []
        assert engine.state("step") == "Running"


def test_a_reaper_that_was_suspended_waits_for_the_next_heartbeats(engine: Engine) -> None:
    """The machine slept: every worker looks dead, and is not."""
    engine.plant("living, dead", group=GROUP)
    reaper = ReaperPart(engine.app.reaper(), engine.app.database)
    with engine.worker(slots=1) as living, engine.worker(slots=1) as dead:
        engine.tick()
        (first,), (second,) = living.claim(1), dead.claim(1)
        reaper.round(())
        engine.clock.advance(1000)
        reaper.round(())
        assert (engine.state("living"), engine.state("dead")) == ("Running", "Running")
        living.worker.heartbeat()
        engine.clock.advance(HEARTBEAT_GRACE_LEASES * LEASE_SECONDS)
        reaper.round(())
        states = {claim.worker: str(engine.app.step(claim.step_id).state) for claim in (first, second)}
        assert states == {living.worker.id: "Running", dead.worker.id: "Pending"}


def test_a_reaper_that_was_suspended_waits_for_half_of_the_longest_lease(engine: Engine) -> None:
    reaper = ReaperPart(engine.app.reaper(), engine.app.database)
    reaper.round(())
    engine.clock.advance(1000)
    assert reaper.round(()) == HEARTBEAT_GRACE_LEASES * LEASE_SECONDS  # no worker is known
    with engine.worker() as short, engine.worker() as longer:
        for runner, seconds in ((short, 2.0), (longer, 6.0)):
            runner.worker.alive_seconds = seconds
            runner.worker.heartbeat()
        engine.clock.advance(1000)
        assert reaper.round(()) == 3.0


def test_the_reaper_runs_when_a_lease_expires_without_another_heartbeat(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as dead, engine.worker() as living:
        engine.claim(dead, "step")
        engine.clock.advance(LEASE_SECONDS - 2.0)
        living.worker.heartbeat()
        reaper = ReaperPart(engine.app.reaper(), engine.app.database)
        pause = reaper.round(())
        assert 2.0 < pause < 2.5
        engine.clock.advance(pause + 0.001)
        assert reaper.round(()) == ROUND_SECONDS
        assert engine["step"].reason == "rescued"


# What nobody took, and what nobody released -----------------------------------------------------------------------


def test_a_dispatched_step_that_no_live_worker_serves_goes_back(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker():
        engine.tick()
        assert engine.state("step") == "Dispatched"
        assert engine.app.reaper().round().recovered == []
        _die(engine)
        assert engine.app.reaper().round().recovered == [engine["step"].id]
    step = engine["step"]
    assert (step.state, step.reason, step.attempts) == ("Pending", "recovered", 0)
    engine.settle()
    assert engine.state("step") == "Completed"


def test_a_dispatched_step_that_its_worker_does_not_come_to_goes_back_in_the_end(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.tick()
        engine.clock.advance(UNCLAIMED_SECONDS - 1)
        runner.worker.heartbeat()
        assert engine.app.reaper().round().recovered == []
        engine.clock.advance(1)
        assert engine.app.reaper().round().recovered == [engine["step"].id]


def test_locks_past_their_deadline_are_released_and_others_are_not(engine: Engine) -> None:
    now = engine.clock.now()
    statement = "UPDATE steps_dispatcher SET lock_owner = 'somebody', lock_deadline = :at WHERE \"group\" = :group"
    for group, seconds in (("alpha", 10), ("beta", 60)):
        engine.change(statement, at=now + timedelta(seconds=seconds), group=group)
    assert engine.app.reaper().round().locks_released == 0
    engine.clock.advance(30)
    assert engine.app.reaper().round().locks_released == 1
    owners = {row.group: row.lock_owner for row in engine.app.groups()}
    assert (owners["alpha"], owners["beta"]) == (None, "somebody")


def test_the_rows_of_dead_workers_are_forgotten_some_time_later(engine: Engine) -> None:
    with engine.worker() as dead, engine.worker() as alive:
        engine.clock.advance(LEASE_SECONDS + DEAD_WORKER_RETENTION_SECONDS - 1)
        alive.worker.heartbeat()
        assert engine.app.reaper().round().workers_deleted == 0
        engine.clock.advance(2)
        assert engine.app.reaper().round().workers_deleted == 1
        assert [row["id"] for row in engine.sql("SELECT id FROM steps_workers")] == [alive.worker.id]
        assert engine.sql("SELECT * FROM steps_worker_lanes WHERE worker_id = :id", id=dead.worker.id) == []


def test_a_round_with_nothing_to_do_writes_nothing(engine: Engine) -> None:
    engine.plant("done, root(later)", group=GROUP)
    engine.settle()
    engine.add("delayed", delay=1000.0)
    before = engine.snapshot()
    for _ in range(3):
        engine.app.reaper().round()
    assert engine.snapshot() == before


# Alarms -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(engine: Engine) -> Iterator[Any]:
    """A worker with free slots that nobody dispatches to, and a function that lets time pass before the reaper."""
    reaper = engine.app.reaper()
    with engine.worker() as runner:

        def wait(seconds: float) -> list[str]:
            engine.clock.advance(seconds)
            runner.worker.heartbeat()
            return reaper.round().stalled

        wait.runner = runner  # type: ignore[attr-defined]
        yield wait


def test_a_group_that_stalls_raises_one_alarm(engine: Engine, waiting: Any, alarms: list[GroupStalled]) -> None:
    engine.plant("step", group=GROUP)
    engine.app.dispatcher().round(open_too=False)
    assert waiting(0) == []
    assert waiting(STALLED_SECONDS - 1) == []
    assert alarms == []
    assert waiting(1) == [GROUP]
    assert waiting(100) == [GROUP]
    assert [(alarm.group, alarm.step_id) for alarm in alarms] == [(GROUP, engine["step"].id)]
    engine.tick()
    assert waiting(0) == []


def test_an_alarm_is_raised_again_for_another_standstill(
    engine: Engine, waiting: Any, alarms: list[GroupStalled]
) -> None:
    for label in ("first", "second"):
        engine.add(label, group=GROUP)
        waiting(0)
        waiting(STALLED_SECONDS)
        engine.settle()
        waiting(0)
    assert [alarm.step_id for alarm in alarms] == [engine["first"].id, engine["second"].id]


def test_work_that_waits_for_a_good_reason_raises_no_alarm(
    engine: Engine, waiting: Any, alarms: list[GroupStalled]
) -> None:
    engine.add("delayed", delay=10_000.0, group="alpha")
    engine.add("of nobody's queue", queue="candles", group="beta")
    engine.change("DELETE FROM steps_worker_lanes WHERE queue = 'candles'")
    engine.plant("first > second", group="gamma")
    engine.add("paused", group="delta")
    engine.app.pause_workflow(engine.refs["paused"], who="tester")
    (claim,) = engine.claim(waiting.runner, "first")
    for _ in range(4):
        assert waiting(STALLED_SECONDS) == []
    assert raised(waiting.runner._finisher, claim, Skip("enough")) == "Skipped"
    assert alarms == []


def test_throttled_work_raises_no_alarm(engine: Engine, waiting: Any, alarms: list[GroupStalled]) -> None:
    engine.plant("throttled", group=GROUP)
    (claim,) = engine.claim(waiting.runner, "throttled")
    raised(waiting.runner._finisher, claim, Reschedule(in_=10_000))
    for _ in range(4):
        assert waiting(STALLED_SECONDS) == []
    assert alarms == []


def test_a_group_behind_the_breaker_raises_no_alarm(engine: Engine, waiting: Any, alarms: list[GroupStalled]) -> None:
    engine.app.breaker.pause(who="tester")
    engine.plant("step", group=GROUP)
    for _ in range(4):
        assert waiting(STALLED_SECONDS) == []
    assert alarms == []


def test_a_group_without_a_free_slot_raises_no_alarm(engine: Engine, alarms: list[GroupStalled]) -> None:
    engine.plant("running", group=GROUP)
    reaper = engine.app.reaper()
    with engine.worker(slots=1) as runner:
        engine.claim(runner, "running")
        engine.plant("waiting", group=GROUP)
        for _ in range(4):
            engine.clock.advance(STALLED_SECONDS)
            runner.worker.heartbeat()
            assert reaper.round().stalled == []
    assert alarms == []


def test_a_group_that_makes_progress_raises_no_alarm_however_much_waits(
    engine: Engine, waiting: Any, alarms: list[GroupStalled]
) -> None:
    for number in range(4):
        engine.add(f"step {number}", group=GROUP)
    for number in range(4):
        assert waiting(STALLED_SECONDS - 1) == []
        engine.app.cancel(engine.refs[f"step {number}"], who="tester")
    assert alarms == []
