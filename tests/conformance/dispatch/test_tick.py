"""The frame of a tick: the order of its phases, when it ends, what it picks."""

from __future__ import annotations

import socket
import threading
from datetime import datetime

import pytest

from stepwell import NewStep, Stepwell
from stepwell.dispatch import tick as ticks
from stepwell.model.features import SCHEDULE
from stepwell.store import Transaction
from stepwell.store.engine import decisions
from stepwell.testing import ManualClock, behave
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, process, ran, rows, run, run_level, tick, wait_for_exit

ALL = [2, 3, 4, 5, 6, 7, 8, 9, 10]

# Where a tick ends -------------------------------------------------------------------------------------------


def _busy_tree(engine: Engine) -> None:
    """Work for phases 2, 3 and 7, and one step to dispatch, all in one group."""
    engine.plant("skipped(a), cancelled(b), parent(c)", group=GROUP)
    with engine.worker() as runner:
        skipped, cancelled, parent = engine.claim(runner, "skipped", "cancelled", "parent")
        run(runner, skipped, cancelled, parent)
        a, b, c = engine.claim(runner, "a", "b", "c")
        for claim in (a, b):
            runner._finisher.hand_back(claim)
        run(runner, c)
        engine.app.skip(engine.refs["skipped"], who="tester")
        engine.app.cancel(engine.refs["cancelled"], who="tester")
        engine.plant("ready", group=GROUP)


def test_a_tick_with_nothing_to_change_runs_all_phases_in_their_order(engine: Engine) -> None:
    engine.plant("root", group=GROUP)
    with engine.worker():
        report = tick(engine.app)
    assert ran(report) == ALL
    assert [ran.phase.name for ran in report.phases] == [
        "skip_children", "cascade_cancellations", "promote_handlers", "parents_to_failed", "cascade_failures",
        "parents_to_completed", "exhausted_retries", "pick", "dispatch",
    ]  # fmt: skip
    assert rows(report) == {"pick": 1, "dispatch": 1}


def test_the_row_of_a_tick_names_its_phases(engine: Engine) -> None:
    engine.plant("root", group=GROUP)
    with engine.worker():
        report = tick(engine.app)
    (row,) = engine.app.ticks()
    assert row.progress == report.progress()
    *_, skipped, picked, dispatched = [{**phase, "ms": 0} for phase in report.progress()]
    assert skipped == {"phase": 8, "name": "exhausted_retries", "rows": 0, "ms": 0}
    assert picked == {"phase": 9, "name": "pick", "rows": 0, "found": 1, "ms": 0}
    assert dispatched == {"phase": 10, "name": "dispatch", "rows": 1, "ms": 0}


def test_a_feature_decides_about_its_own_undecided_steps_in_a_tick(engine: Engine) -> None:
    decided: list[tuple[str, str]] = []

    def decide(tx: Transaction, group: str, actor: str, now: datetime) -> int:
        decided.append((group, actor))
        decisions.record_decision(tx, id=engine.refs["scheduled"].id, decision=None, dispatch_after=None)
        return decisions.open_decided(tx, id=engine.refs["scheduled"].id, due_at=None)

    engine.plant("scheduled, other", group=GROUP)
    of_step = {"id": engine.refs["scheduled"].id}
    engine.change("UPDATE steps SET belongs_to = 'schedule', undecided = 'always' WHERE id = :id", **of_step)
    engine.change("UPDATE steps_agenda SET status = 'undecided' WHERE step_id = :id", **of_step)
    engine.app.database.hooks.in_tick(SCHEDULE, decide)
    report = tick(engine.app)
    assert (decided, report.opened) == ([(GROUP, f"tick:{report.tick}")], 1)
    assert engine.sql("SELECT status FROM steps_agenda WHERE step_id = :id", **of_step) == [{"status": "open"}]
    tick(engine.app)
    assert len(decided) == 1


def test_two_features_decide_in_one_tick(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("flow")

    @flow.step(delay=60)
    def later() -> None: ...

    run = flow.start()
    engine.add("scheduled", group=run.step("later").group)
    of_step = {"id": engine.refs["scheduled"].id}
    engine.change("UPDATE steps SET belongs_to = 'schedule', undecided = 'always' WHERE id = :id", **of_step)
    engine.change("UPDATE steps_agenda SET status = 'undecided' WHERE step_id = :id", **of_step)
    engine.app.database.hooks.in_tick(SCHEDULE, lambda tx, *_: decisions.open_decided(tx, **of_step, due_at=None))
    assert tick(engine.app, run.step("later").group or "").opened == 2
    statuses = engine.sql("SELECT status FROM steps_agenda ORDER BY step_id")
    assert statuses == [{"status": "delayed"}, {"status": "open"}]
    engine.change("UPDATE steps SET undecided = NULL WHERE id = :id", **of_step)


def test_a_tick_dispatches_to_the_queue_of_a_workers_host(engine: Engine) -> None:
    with engine.worker():
        engine.add("here", queue=socket.gethostname().lower())
        engine.tick()
        assert engine.state("here") == "Dispatched"


def test_a_phase_that_changed_rows_ends_the_tick_and_the_next_one_runs_all_phases(engine: Engine) -> None:
    _busy_tree(engine)
    with engine.worker():
        first = tick(engine.app)
        assert (ran(first), rows(first), first.ended_early) == ([2], {"skip_children": 1}, True)

        second = tick(engine.app)
        assert ran(second) == ALL
        assert rows(second) == {
            "cascade_cancellations": 1,
            "parents_to_completed": 1,
            "pick": second.dispatched,
            "dispatch": second.dispatched,
        }
        assert not second.ended_early
        assert engine.state("ready") == "Dispatched"


def test_a_phase_that_found_rows_but_changed_none_does_not_end_the_tick(engine: Engine) -> None:
    """A skipped parent whose descendants have all ended used to wedge its group for hours."""
    engine.plant("root(one, two)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "one", "two")
        engine.app.skip(engine.refs["root"], who="tester")
        engine.plant("ready", group=GROUP)

        report = tick(engine.app)

        assert rows(report) == {"pick": 1, "dispatch": 1}
        assert engine.state("ready") == "Dispatched"


def test_the_tick_after_an_early_end_runs_all_phases_also_for_another_dispatcher(engine: Engine) -> None:
    _busy_tree(engine)
    with engine.worker():
        assert tick(engine.app, owner="one dispatcher").ended_early
        report = tick(engine.app, owner="another one")
    assert ran(report) == ALL


def test_the_tick_after_an_early_end_runs_all_phases_also_in_another_process(
    shared_database_url: str, clock: ManualClock
) -> None:
    with Stepwell(shared_database_url) as app:
        engine = Engine(app, clock)
        _busy_tree(engine)
        with engine.worker():
            assert tick(app).ended_early
            script = """
from stepwell.dispatch.tick import Tick
with Stepwell(url) as app:
    report = Tick(app.database, "another process").run("alpha")
    print([ran.phase.number for ran in report.phases])
"""
            with process(script, shared_database_url) as (child,):
                assert wait_for_exit(child).strip() == str(ALL)
        assert app.ticks(GROUP, 1)[0].owner == "another process"


def test_early_ends_alternate_with_full_ticks_while_cascades_go_on(engine: Engine) -> None:
    """Steady cascades must not starve dispatch: of two ticks at least one dispatches."""
    with engine.worker(slots=100):
        engine.plant(", ".join(f"ready{number}" for number in range(40)), group=GROUP)
        for number in range(6):
            engine.plant(f"root{number}(child{number})", group=GROUP)
        for number in range(6):
            engine.app.skip(engine.refs[f"root{number}"], who="tester")
            report = tick(engine.app, batch_limit=1)
            assert report.ended_early == (number % 2 == 0)
            assert report.dispatched == number % 2


def test_a_tick_changes_only_rows_of_its_group(engine: Engine) -> None:
    engine.plant("here(a)", group="alpha")
    engine.plant("there(b)", group="beta")
    for root in ("here", "there"):
        engine.app.skip(engine.refs[root], who="tester")
    with engine.worker():
        engine.plant("elsewhere", group="beta")
        tick(engine.app, "alpha")
        tick(engine.app, "alpha")
        assert engine.states("a", "b", "elsewhere") == {"a": "Skipped", "b": "Pending", "elsewhere": "Pending"}
        tick(engine.app, "beta")
        assert engine.state("b") == "Skipped"


# What it picks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [None, GROUP], ids=["over all groups", "within one group"])
def test_at_most_twice_the_live_slots_of_a_queue_stay_dispatched(engine: Engine, group: str | None) -> None:
    engine.plant(", ".join(f"s{number}" for number in range(20)), group=group)
    with engine.worker(slots=3) as runner:
        engine.tick()
        assert list(engine.states().values()).count("Dispatched") == 6
        claims = runner.claim(2)
        engine.tick()
        assert list(engine.states().values()).count("Dispatched") == 6
        run(runner, *claims)
        with engine.worker(slots=1):
            engine.tick()
            assert list(engine.states().values()).count("Dispatched") == 8


def test_slots_of_a_worker_that_is_no_longer_alive_do_not_count(engine: Engine) -> None:
    engine.plant(", ".join(f"s{number}" for number in range(20)))
    with engine.worker(slots=5):
        engine.clock.advance(60)
        engine.tick()
        assert set(engine.states().values()) == {"Pending"}
        with engine.worker(slots=1):
            engine.tick()
            assert list(engine.states().values()).count("Dispatched") == 2


def test_the_bound_holds_for_each_queue_by_itself(engine: Engine) -> None:
    engine.plant(", ".join(f"a{number}" for number in range(5)), group=GROUP, queue="candles")
    engine.plant(", ".join(f"b{number}" for number in range(5)), group=GROUP)
    with engine.worker(slots=1):
        engine.tick()
    dispatched = engine.sql("SELECT queue, count(*) AS steps FROM steps WHERE state = 'Dispatched' GROUP BY queue")
    assert {row["queue"]: row["steps"] for row in dispatched} == {"candles": 2, "default": 2}


def test_the_bound_holds_for_dispatchers_that_tick_different_groups_at_once(shared_database_url: str) -> None:
    groups = ["alpha", "beta", "gamma", "delta"]
    with Stepwell(shared_database_url) as app:
        behave(app)
        app.enqueue_many(NewStep(action="behave", group=group) for group in groups for _ in range(30))
        runner = app.inline_runner(slots=5)
        apps = [Stepwell(shared_database_url) for _ in groups]
        barrier = threading.Barrier(len(groups))
        failures: list[BaseException | None] = []

        def tick_one(mine: Stepwell, group: str) -> None:
            barrier.wait()
            for _ in range(5):
                failures.append(ticks.Tick(mine.database, group).run(group).error)

        threads = [threading.Thread(target=tick_one, args=pair) for pair in zip(apps, groups, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for mine in apps:
            mine.close()
        runner.close()
        assert not any(failures)
        assert app.stats().states["Dispatched"] == 10


def test_the_limit_is_applied_after_eligibility(engine: Engine) -> None:
    """One hundred blocked rows used to hide everything younger."""
    engine.plant("front > " + ", ".join(f"blocked{number}" for number in range(50)), group=GROUP)
    engine.plant("base:fail, " + ", ".join(f"dependent{number}<base" for number in range(50)), group=GROUP)
    for number in range(20):
        engine.add(f"late{number}", group=GROUP, delay=3600)
        engine.add(f"unserved{number}", group=GROUP, queue="candles")
    engine.plant("young", group=GROUP)
    runner = engine.app.inline_runner(queues=["default"], slots=8)
    report = tick(engine.app, batch_limit=3)
    runner.close()
    assert report.dispatched == 3
    assert engine.states("front", "base", "young") == dict.fromkeys(("front", "base", "young"), "Dispatched")


def test_high_priority_goes_first_and_then_the_oldest(engine: Engine) -> None:
    engine.plant("old, older_still", group=GROUP)
    engine.plant("urgent", group=GROUP, priority="high", queue="default")
    engine.plant("young", group=GROUP)
    order = []
    with engine.worker(slots=8):
        for _ in range(4):
            before = {label for label, state in engine.states().items() if state == "Dispatched"}
            tick(engine.app, batch_limit=1)
            after = {label for label, state in engine.states().items() if state == "Dispatched"}
            order += sorted(after - before)
    assert order == ["urgent", "old", "older_still", "young"]


@pytest.mark.parametrize("missing", ["action", "queue"])
def test_an_undispatchable_step_of_high_priority_blocks_nobody(engine: Engine, missing: str) -> None:
    """One such row used to block hundreds of normal ones."""
    for number in range(5):
        if missing == "action":
            engine.app.enqueue("nobody knows this", group=GROUP, priority="high", queue="default", label=f"p{number}")
        else:
            engine.add(f"p{number}", group=GROUP, priority="high", queue="candles")
    engine.plant(", ".join(f"n{number}" for number in range(10)), group=GROUP)
    runner = engine.app.inline_runner(queues=["default"], slots=20)
    report = tick(engine.app, batch_limit=10)
    runner.close()
    assert report.dispatched == 10
    assert engine.app.stats().states["Pending"] == 5


def test_a_step_that_no_live_worker_serves_waits_pending_and_unspent(engine: Engine) -> None:
    step = engine.app.enqueue("nobody knows this", group=GROUP)
    engine.settle()
    engine.clock.advance(86_400)
    engine.settle()
    found = engine.app.step(step)
    assert (found.state, found.attempts, found.retries, found.reason) == ("Pending", 0, 0, None)
    behave(engine.app, "nobody knows this")
    engine.settle()
    assert engine.app.step(step).state == "Completed"
