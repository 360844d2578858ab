"""No retry is undone by the next cascade: the same retry at every moment of the cascade."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.dispatch.lock import GroupLock
from stepwell.dispatch.tick import Tick
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, make_succeed, run, run_level, tick


@pytest.mark.parametrize("ticks_before", [0, 1, 2, 3])
def test_the_retry_of_a_failed_parent_is_not_undone_by_the_cascade_of_its_failure(
    engine: Engine, ticks_before: int
) -> None:
    engine.plant("root:fail(child(deep) > next)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        make_succeed(engine, "root")
        for _ in range(ticks_before):
            tick(engine.app)
        engine.app.retry(engine.refs["root"], who="tester")
        for claim in runner.claim(100):
            run(runner, claim)
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


@pytest.mark.parametrize("ticks_before", [0, 1, 2, 3, 4])
def test_the_retry_of_a_failed_child_is_not_undone_by_the_failure_of_its_parents(
    engine: Engine, ticks_before: int
) -> None:
    engine.plant("root(mid(bad:fail > behind(deep)) > last)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "mid")
        run_level(engine, runner, "bad")
        make_succeed(engine, "bad")
        for _ in range(ticks_before):
            tick(engine.app)
        engine.app.retry(engine.refs["bad"], who="tester")
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


@pytest.mark.parametrize("ticks_before", [0, 1, 2])
def test_the_retry_of_a_cancelled_tree_is_not_undone_by_its_cancellation(engine: Engine, ticks_before: int) -> None:
    engine.plant("root(child(deep) > next)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        engine.app.cancel(engine.refs["root"], who="tester")
        for _ in range(ticks_before):
            tick(engine.app)
        engine.app.retry(engine.refs["root"], who="tester")
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


@pytest.mark.parametrize("place", [1, 2])
def test_a_retry_in_the_middle_of_a_tick_leaves_no_step_waiting_for_ever(engine: Engine, place: int) -> None:
    """`behind` comes back with the one failure, and stands behind the other."""
    engine.plant("root(bad:fail, worse:fail, slow > behind), other", group=GROUP)
    with engine.worker() as runner:
        root, other = engine.claim(runner, "root", "other")
        run(runner, root)
        bad, worse, slow = engine.claim(runner, "bad", "worse", "slow")
        run(runner, bad, worse)
        engine.tick()
        runner._finisher.hand_back(other)  # something else for the tick to check
        assert engine.state("behind") == "NotRunnable"
        make_succeed(engine, "bad")
        interrupted = Tick(engine.app.database, "interrupted")
        guarded, seen = interrupted._run_fenced, []

        def meanwhile(lock: GroupLock, work: Any) -> Any:
            seen.append(1)
            if len(seen) == place:
                engine.app.retry(engine.refs["bad"], who="tester")
            return guarded(lock, work)

        interrupted._run_fenced = meanwhile  # type: ignore[method-assign]
        assert interrupted.run(GROUP).error is None
        run(runner, slow, *runner.claim(10))
    engine.settle()
    assert engine.states() == {
        "root": "Failed", "bad": "Completed", "worse": "Failed", "slow": "Completed", "behind": "NotRunnable",
        "other": "Completed",
    }  # fmt: skip
