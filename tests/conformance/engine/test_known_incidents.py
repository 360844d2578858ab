"""Incidents of similar systems, each as a test."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from stepwell import NewStep, Stepwell
from stepwell.dispatch.lock import GroupLock
from stepwell.dispatch.tick import Tick
from stepwell.store.engine import ticks
from stepwell.testing import behave
from tests.conformance.support.engine import Engine, raised, returned
from tests.conformance.support.ticks import (
    GROUP,
    expect_line,
    force,
    process,
    rows,
    run,
    run_level,
    send_line,
    tick,
    wait_for_exit,
)

# A phase that reports work on zero changed rows wedges its group ----------------------------------------


def test_a_skipped_parent_with_only_ended_descendants_does_not_wedge_its_group(engine: Engine) -> None:
    engine.plant("root(done, bad:fail, mid(leaf))", group=GROUP)
    engine.settle()
    assert engine.state("root") == "Failed"
    engine.app.skip(engine.refs["root"], who="tester")
    with engine.worker():
        for number in range(5):
            engine.plant(f"ready{number}", group=GROUP)
            assert rows(tick(engine.app)) == {"pick": 1, "dispatch": 1}


def test_a_dispatched_child_under_a_skipped_parent_does_not_wedge_its_group(engine: Engine) -> None:
    engine.plant("root(child)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        engine.tick()
        assert engine.state("child") == "Dispatched"
        engine.app.skip(engine.refs["root"], who="tester")
        engine.plant("ready", group=GROUP)
        assert rows(tick(engine.app)) == {"skip_children": 1}
        assert rows(tick(engine.app)) == {"pick": 1, "dispatch": 1}
        assert not tick(engine.app).changed
        assert engine.states() == {"root": "Skipped", "child": "Skipped", "ready": "Dispatched"}


def test_a_database_without_work_gives_no_work_to_any_phase(engine: Engine) -> None:
    engine.plant("root(done, bad:fail > behind, !handler), cancelled(a), skipped(b)", group=GROUP)
    engine.app.cancel(engine.refs["cancelled"], who="tester")
    engine.app.skip(engine.refs["skipped"], who="tester")
    engine.settle()
    for _ in range(3):
        report = tick(engine.app)
        assert (report.changed, rows(report)) == (0, {})


# A limit before the filter hides what is younger; one poison row blocks hundreds -------------------


@pytest.mark.slow
def test_thousands_of_blocked_rows_at_the_head_hide_nothing_younger(engine: Engine) -> None:
    front = NewStep(action="behave", group=GROUP, block="00000000-0000-4000-8000-000000000001", label="front")
    block = [
        NewStep(action="behave", group=GROUP, block="00000000-0000-4000-8000-000000000001", index=2)
        for _ in range(2_500)
    ]
    base = NewStep(action="behave", group=GROUP)
    edges = [NewStep(action="behave", depends_on=[base]) for _ in range(2_500)]
    engine.app.enqueue_many([front, *block, base, *edges])
    with engine.worker() as runner:
        engine.tick()
        engine.plant("young", group=GROUP)
        report = tick(engine.app, batch_limit=1)
        assert report.dispatched == 1
        assert engine.state("young") == "Dispatched"
        assert runner.claim(100)[-1].step_id == engine.refs["young"].id


def test_one_undispatchable_step_of_high_priority_does_not_block_hundreds(engine: Engine) -> None:
    engine.app.enqueue("nobody knows this", group=GROUP, priority="high", queue="default")
    engine.app.enqueue_many(NewStep(action="behave", group=GROUP) for _ in range(660))
    with engine.worker(slots=400):
        engine.tick()
    assert engine.app.stats().states | {"Pending": 1, "Dispatched": 660} == engine.app.stats().states


# A lock without an owner is released by the wrong tick ----------------------------------------------


def test_a_slow_tick_does_not_release_the_lock_of_the_one_that_overtook_it(engine: Engine) -> None:
    slow = Tick(engine.app.database, "slow")
    guarded = slow._run_fenced

    def pausing(lock: GroupLock, work: Any) -> Any:
        engine.clock.advance(31)
        taken.append(engine.app.database.transact(lambda tx: _take_over(tx, engine)))
        return guarded(lock, work)

    taken: list[int] = []
    slow._run_fenced = pausing  # type: ignore[method-assign]
    engine.plant("ready", group=GROUP)
    assert slow.run(GROUP).error is not None
    (row,) = [group for group in engine.app.groups() if group.group == GROUP]
    assert (row.lock_owner, row.lock_token) == ("the other", taken[0])


def _take_over(tx: Any, engine: Engine) -> int:
    now = engine.clock.now()
    row = ticks.acquire_lock(tx, group=GROUP, owner="the other", now=now, deadline=now.replace(year=2030))
    assert row is not None
    return row.lock_token


# Two deliveries of one step run it twice; a worker that was thought dead overwrites the new run -----------------

_CLAIMS = """
with Stepwell(url) as app:
    behave(app)
    runner = app.inline_runner(slots=3)
    say("ready")
    wait_for_a_line()
    claims = [None]
    while claims:
        claims = runner.claim(3)
        for claim in claims:
            print(claim.step_id, claim.token, flush=True)
    runner.close()
"""


@pytest.mark.slow
def test_a_step_that_is_dispatched_once_is_claimed_once_by_many_processes(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as app:
        behave(app)
        app.enqueue_many(NewStep(action="behave") for _ in range(200))
        runner = app.inline_runner(slots=200)
        app.dispatcher().run_until_quiet()
        assert app.stats().states["Dispatched"] == 200
        with process(_CLAIMS, shared_database_url, count=4) as children:
            for child in children:
                expect_line(child, "ready")
            for child in children:
                send_line(child)
            claims = [line for child in children for line in wait_for_exit(child).splitlines()]
        runner.close()
        assert len(claims) == len(set(claims)) == 200
        assert app.stats().states["Running"] == 200


def test_a_worker_that_was_thought_dead_does_not_overwrite_the_new_run(engine: Engine) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as paused, engine.worker() as other:
        (old,) = engine.claim(paused, "step")
        assert other._finisher.hand_back(old) == "Pending"  # somebody brings it back
        (new,) = engine.claim(other, "step")
        assert returned(paused._finisher, old, "old") is None
        assert raised(paused._finisher, old, RuntimeError("old")) is None
        assert engine["step"].state == "Running"
        returned(other._finisher, new, "new")
        assert returned(paused._finisher, old, "old") is None
    assert (engine["step"].state, engine["step"].response) == ("Completed", "new")
    assert engine.path("step").count("Completed") == 1


# A replayed parent duplicates its children; one that only waits is run again -------------------------------


def test_a_parent_that_is_run_again_does_not_duplicate_its_children(engine: Engine) -> None:
    root = engine.app.enqueue(
        "behave", {"outcome": ["raise", "raise", "ok"], "spawn": [{"label": "one"}, {"label": "two"}]}
    )
    engine.settle()
    assert engine.app.step(root).state == "Completed"
    assert engine.app.step(root).attempts == 3
    assert sorted(node.step.name for node in engine.app.tree(root).children) == ["one", "two"]


def test_a_parent_that_only_waits_for_its_children_is_not_run_again(engine: Engine) -> None:
    engine.plant("root(child)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        (child,) = engine.claim(runner, "child")
        engine.clock.advance(10 * 86_400)
        runner.worker.heartbeat()
        engine.tick()
        assert runner.claim(10) == []
        assert engine["root"].attempts == 1
        run(runner, child)
    engine.settle()
    assert engine.path("root") == ["Pending", "Dispatched", "Running", "Completed"]


# A cancelled step that a worker picks up loops through errors ----------------------------------------------


@pytest.mark.parametrize("action", ["cancel", "skip"])
def test_a_step_that_ended_between_dispatch_and_pick_up_is_not_run(engine: Engine, action: str) -> None:
    engine.plant("step", group=GROUP)
    with engine.worker() as runner:
        engine.tick()
        getattr(engine.app, action)(engine.refs["step"], who="tester")
        for _ in range(3):
            assert runner.round() == 0
            engine.tick()
    assert len(engine.history("step")) == 3
    assert engine["step"].attempts == 0
    assert engine.app.stats().agenda == {}


def test_a_step_that_was_cancelled_while_it_ran_is_not_run_again_whatever_its_code_says(engine: Engine) -> None:
    engine.plant("step:raise", group=GROUP, max_retries=100)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
        engine.app.cancel(engine.refs["step"], who="tester")
        run(runner, claim)
    engine.settle()
    assert engine.path("step") == ["Pending", "Dispatched", "Running", "Cancelled"]
    assert (engine["step"].retries, engine["step"].attempts, engine["step"].error_message) == (0, 1, None)


# Throttled work sets off alarms ----------------------------------------------------------------------------------


def test_throttled_work_spends_nothing_and_is_no_error(engine: Engine) -> None:
    engine.plant("step:" + "throttle/" * 25 + "ok", group=GROUP, max_retries=0)
    engine.settle()
    step = engine["step"]
    assert (step.state, step.retries, step.error_message, step.was_throttled) == ("Completed", 0, None, True)
    assert not step.is_throttled
    assert all(transition.error is None for transition in engine.history("step"))
    assert Counter(engine.path("step"))["Running"] == 26
    assert all(kept.error is None for kept in engine.app.ticks(limit=1_000))


# Second-precision timestamps break round robin -----------------------------------------------------------------


def test_roots_spread_evenly_although_the_clock_stands_still(engine: Engine) -> None:
    for number in range(30):
        engine.plant(f"root{number}")
    engine.app.enqueue_many(NewStep(action="behave") for _ in range(70))
    counts = Counter(step.group for step in engine.app.steps(limit=200))
    assert set(counts.values()) == {10}
    assert len(counts) == 10


# A step that plain SQL wrote is lost ------------------------------------------------------------------------------


def test_a_step_that_was_cancelled_and_retried_before_its_adoption_is_not_lost(engine: Engine) -> None:
    engine.change(
        "INSERT INTO steps (action, label, created_at, updated_at) VALUES ('behave', 'raw', :now, :now)",
        now=engine.clock.now(),
    )
    (raw,) = engine.app.steps()
    engine.app.cancel(raw, who="tester")
    engine.app.retry(raw, who="tester")
    engine.settle()
    assert engine.app.step(raw).state == "Completed"


# Mixed outcomes of children leave their parent waiting for ever (28 of 36) ------------------------------------------


def test_every_pair_of_outcomes_decides_the_parent(engine: Engine) -> None:
    outcomes = {"ok": "Completed", "skip": "Skipped", "fail": "Failed", "stop": "Stopped"}
    forced = {"cancel": "Cancelled", "doom": "NotRunnable"}
    pairs = [(one, two) for one in outcomes | forced for two in outcomes | forced]
    told = {outcome: outcome for outcome in outcomes} | dict.fromkeys(forced, "ok")
    engine.plant(
        ", ".join(f"p{number}(a{number}:{told[one]}, b{number}:{told[two]})" for number, (one, two) in enumerate(pairs))
    )
    for number, pair in enumerate(pairs):
        for side, outcome in zip("ab", pair, strict=True):
            if outcome in forced:
                force(engine, f"{side}{number}", forced[outcome])
    engine.settle(slots=100)
    for number, (one, two) in enumerate(pairs):
        ends_well = {one, two} <= {"ok", "skip"}
        expected = (outcomes | forced)[one], (outcomes | forced)[two], "Completed" if ends_well else "Failed"
        assert (engine.state(f"a{number}"), engine.state(f"b{number}"), engine.state(f"p{number}")) == expected


# The breaker flips in the middle of it -----------------------------------------------------------------------


def test_no_dispatch_falls_into_an_interval_in_which_the_breaker_was_off(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as app, Stepwell(shared_database_url) as operator:
        behave(app)
        runner = app.inline_runner(slots=1_000)
        app.enqueue_many(NewStep(action="behave", group=GROUP) for _ in range(1_000))
        stop, progress = threading.Event(), threading.Event()
        errors: list[BaseException | None] = []

        def work() -> None:
            dispatcher = app.dispatcher(batch_limit=1)
            while not stop.is_set():
                reports = dispatcher.round()
                errors.extend(report.error for report in reports if report.error)
                if any(report.dispatched for report in reports):
                    progress.set()

        def dispatched() -> int:
            count = "SELECT count(*) AS n FROM step_transitions WHERE to_state = 'Dispatched'"
            return int(operator.database.read(lambda tx: tx.fetch(count, {}))[0]["n"])

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(12):
                assert progress.wait(60)
                operator.breaker.pause("tester")
                at_pause = dispatched()
                operator.enqueue("behave")  # time in which the dispatcher could do something
                assert dispatched() == at_pause
                progress.clear()
                operator.breaker.resume("tester")
        finally:
            stop.set()
            thread.join()
            runner.close()
        assert errors == []
        assert operator.check_invariants() == []
