"""The lock of a group: one owner, a token that only grows, a deadline, and a fence behind it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stepwell import NewStep, Stepwell
from stepwell.dispatch import lock as group_lock
from stepwell.dispatch.lock import LOCK_SECONDS, GroupLock
from stepwell.dispatch.tick import Tick, TickReport
from stepwell.model.errors import LockLost
from stepwell.store.engine import ticks
from stepwell.store.engine.reading import GroupRow
from stepwell.testing import ManualClock, behave
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, expect_line, process, run_level, send_line, tick, wait_for_exit

pytestmark = pytest.mark.sqlite_file  # others hold the lock


def _take(app: Stepwell, owner: str) -> GroupLock | None:
    return group_lock.acquire(app.database, GROUP, owner)


def _release(app: Stepwell, lock: GroupLock) -> int:
    return app.database.transact(
        lambda tx: ticks.release_lock(tx, group=lock.group, token=lock.token, now=app.database.now(), ended_early=False)
    )


def _row(app: Stepwell) -> GroupRow:
    (row,) = [row for row in app.groups() if row.group == GROUP]
    return row


def test_a_lock_has_an_owner_a_token_and_a_deadline(engine: Engine) -> None:
    lock = _take(engine.app, "first")
    assert lock is not None
    row = _row(engine.app)
    assert (row.lock_owner, row.lock_token) == ("first", lock.token)
    assert row.lock_deadline == engine.clock.now() + timedelta(seconds=LOCK_SECONDS)
    assert row.current_tick_id == lock.tick


def test_nobody_else_gets_a_lock_that_is_held(engine: Engine) -> None:
    assert _take(engine.app, "first") is not None
    assert _take(engine.app, "second") is None
    assert _take(engine.app, "first") is None  # a second tick of the same dispatcher is somebody else, too
    engine.clock.advance(LOCK_SECONDS - 0.001)
    assert _take(engine.app, "second") is None
    assert _row(engine.app).lock_owner == "first"


def test_a_group_that_is_locked_is_left_out_and_the_others_are_ticked(engine: Engine) -> None:
    with engine.worker():
        engine.plant("here", group="alpha")
        engine.plant("there", group="beta")
        assert _take(engine.app, "somebody else") is not None
        assert [report.group for report in engine.app.dispatch_once()] == ["beta"]
        assert engine.states() == {"here": "Pending", "there": "Dispatched"}


def test_a_lock_past_its_deadline_is_taken_over_with_a_new_token(engine: Engine) -> None:
    first = _take(engine.app, "first")
    engine.clock.advance(LOCK_SECONDS)
    second = _take(engine.app, "second")
    assert first is not None
    assert second is not None
    assert second.token == first.token + 1
    assert _row(engine.app).lock_owner == "second"


def test_only_the_owner_releases_a_lock(engine: Engine) -> None:
    first = _take(engine.app, "first")
    engine.clock.advance(LOCK_SECONDS)
    second = _take(engine.app, "second")
    assert first is not None
    assert second is not None
    assert _release(engine.app, first) == 0
    assert _row(engine.app).lock_owner == "second"
    assert _release(engine.app, second) == 1
    assert _row(engine.app).lock_owner is None
    assert _take(engine.app, "third") is not None


def test_the_fence_stops_whoever_lost_the_lock_and_only_them(engine: Engine) -> None:
    first = _take(engine.app, "first")
    assert first is not None
    engine.clock.advance(2 * LOCK_SECONDS)
    engine.app.database.transact(first.fence)  # late, but nobody took it over
    second = _take(engine.app, "second")
    assert second is not None
    with pytest.raises(LockLost, match="another dispatcher took over group alpha"):
        engine.app.database.transact(first.fence)
    engine.app.database.transact(second.fence)
    assert _release(engine.app, second) == 1
    with pytest.raises(LockLost):
        engine.app.database.transact(second.fence)


def test_of_many_that_want_a_lock_at_once_one_gets_it(shared_database_url: str) -> None:
    apps = [Stepwell(shared_database_url) for _ in range(6)]
    barrier = threading.Barrier(len(apps))
    taken: list[GroupLock | None] = []

    def want(app: Stepwell, name: str) -> None:
        barrier.wait()
        taken.append(_take(app, name))

    threads = [threading.Thread(target=want, args=(app, f"d{number}")) for number, app in enumerate(apps)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [lock for lock in taken if lock is not None]
    assert _row(apps[0]).lock_owner == winner.owner
    for app in apps:
        app.close()


# A tick that is overtaken between its transactions ------------------------------------------------------------


def _overtaken(engine: Engine, place: int, by: Callable[[], Any]) -> TickReport:
    """Run a tick; before its transaction number `place` the lock expires and somebody else does something."""
    slow = Tick(engine.app.database, "slow")
    guarded, seen = slow._run_fenced, []

    def pausing(lock: GroupLock, work: Any) -> Any:
        seen.append(1)
        if len(seen) == place:
            engine.clock.advance(LOCK_SECONDS)
            by()
        return guarded(lock, work)

    slow._run_fenced = pausing  # type: ignore[method-assign]
    return slow.run(GROUP)


@pytest.mark.parametrize("place", [1, 2])
def test_a_tick_that_was_overtaken_commits_nothing_more(engine: Engine, place: int) -> None:
    engine.plant("root(child), ready", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        engine.app.skip(engine.refs["root"], who="tester")
        if place > 1:  # a full tick has another transaction after the state phases
            tick(engine.app)
            engine.plant("more", group=GROUP)
        quick: list[TickReport] = []

        def overtake() -> None:
            runner.worker.heartbeat()
            quick.append(tick(engine.app, owner="quick"))

        lost = _overtaken(engine, place, overtake)
        assert isinstance(lost.error, LockLost)
        actors = {row["actor"] for row in engine.sql("SELECT DISTINCT actor FROM step_transitions")}
        assert f"tick:{lost.tick}" not in actors
        assert quick[0].changed
        assert f"tick:{quick[0].tick}" in actors
        assert _row(engine.app).lock_owner is None


def test_a_tick_that_was_overtaken_leaves_the_lock_of_its_successor_alone(engine: Engine) -> None:
    engine.plant("root", group=GROUP)
    with engine.worker():
        lost = _overtaken(engine, 1, lambda: _take(engine.app, "successor"))
    assert isinstance(lost.error, LockLost)
    assert _row(engine.app).lock_owner == "successor"
    assert engine.state("root") == "Pending"


def test_a_dispatcher_that_was_overtaken_goes_on_with_its_next_round(engine: Engine) -> None:
    engine.plant("root", group=GROUP)
    lost = _overtaken(engine, 1, lambda: tick(engine.app, owner="quick"))
    assert isinstance(lost.error, LockLost)
    engine.settle()
    assert engine.state("root") == "Completed"


# Real processes -----------------------------------------------------------------------------------------------

_STOPS_BETWEEN_PHASES = """
from stepwell.dispatch.tick import Tick
with Stepwell(url) as app:
    tick = Tick(app.database, "the stopped one")
    guarded = tick._run_fenced
    def stopping(lock, work):
        tick._run_fenced = guarded
        say("between")
        os.kill(os.getpid(), signal.SIGSTOP)
        return guarded(lock, work)
    tick._run_fenced = stopping
    report = tick.run("alpha")
    say(type(report.error).__name__)
    say(report.tick)
"""


def test_a_process_that_is_stopped_in_its_tick_and_overtaken_commits_nothing_more(shared_database_url: str) -> None:
    # The lock that the process takes is of the present; the others live a minute later.
    clock = ManualClock(datetime.now(UTC) + timedelta(seconds=2 * LOCK_SECONDS))
    with Stepwell(shared_database_url, clock=clock) as app:
        engine = Engine(app, clock)
        engine.plant("root(child), ready", group=GROUP)
        app.cancel(engine.refs["root"], who="tester")
        with process(_STOPS_BETWEEN_PHASES, shared_database_url) as (child,):
            expect_line(child, "between")
            os.waitpid(child.pid, os.WUNTRACED)
            with engine.worker():
                overtaking = [tick(app, owner="quick"), tick(app, owner="quick")]
            assert [bool(report.changed) for report in overtaking] == [True, True]
            before = engine.snapshot()
            os.kill(child.pid, signal.SIGCONT)
            said = wait_for_exit(child).split()
        assert said[0] == "LockLost"
        assert engine.snapshot() == before
        assert engine.states() == {"root": "Cancelled", "child": "Cancelled", "ready": "Dispatched"}
        assert engine.sql("SELECT 1 FROM step_transitions WHERE actor = :actor", actor=f"tick:{said[1]}") == []


_STOPS_INSIDE_A_TRANSACTION = """
from stepwell.dispatch import tick
with Stepwell(url) as app:
    def stopping(*args):
        say("inside")
        os.kill(os.getpid(), signal.SIGSTOP)
        raise AssertionError("its transaction should be gone")
    tick.process_marks = stopping
    report = tick.Tick(app.database, "the stopped one", lock_seconds=0.3).run("alpha")
    say(report.dispatched)
"""


@pytest.mark.postgres
def test_a_process_that_is_stopped_inside_a_transaction_does_not_hold_its_group_for_ever(postgres_url: str) -> None:
    with Stepwell(postgres_url) as app:
        behave(app)
        step = app.enqueue("behave", group=GROUP)
        with process(_STOPS_INSIDE_A_TRANSACTION, postgres_url) as (child,):
            expect_line(child, "inside")
            os.waitpid(child.pid, os.WUNTRACED)
            runner = app.inline_runner()
            while not tick(app).dispatched:  # waits in the database until the server ends the stopped session
                pass
            runner.close()
            assert app.step(step).state == "Dispatched"
            os.kill(child.pid, signal.SIGCONT)
            assert wait_for_exit(child).strip() == "0"


_TICKS_UNTIL_QUIET = """
with Stepwell(url) as app:
    behave(app)
    say("ready")
    wait_for_a_line()
    dispatcher = app.dispatcher(["alpha"], batch_limit=7)
    quiet = 0
    while quiet < 20:
        reports = dispatcher.round()
        for report in reports:
            if report.error: raise report.error
        quiet = 0 if any(report.changed for report in reports) else quiet + 1
"""


@pytest.mark.slow
def test_three_dispatchers_on_one_group_dispatch_every_step_once(shared_database_url: str) -> None:
    with Stepwell(shared_database_url) as app:
        behave(app)
        app.enqueue_many(NewStep(action="behave", group=GROUP) for _ in range(300))
        runner = app.inline_runner(slots=400)
        with process(_TICKS_UNTIL_QUIET, shared_database_url, count=3) as children:
            for child in children:
                expect_line(child, "ready")
            for child in children:
                send_line(child)
            for child in children:
                wait_for_exit(child)
        assert app.stats().states["Dispatched"] == 300
        count = (
            "SELECT count(*) AS n, count(DISTINCT step_id) AS steps FROM step_transitions WHERE to_state = 'Dispatched'"
        )
        (row,) = app.database.read(lambda tx: tx.fetch(count, {}))
        assert (row["n"], row["steps"]) == (300, 300)
        assert sum(kept.steps_dispatched for kept in app.ticks(GROUP, 1_000)) == 300
        assert app.check_invariants() == []
        runner.close()
