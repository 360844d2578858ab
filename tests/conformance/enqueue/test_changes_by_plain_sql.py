"""Plain SQL may change a step that has not begun: when it runs, and as what. Ticks, claims and counters go by it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.enqueue.test_plain_sql import DATABASE_ERRORS
from tests.conformance.enqueue.test_plain_sql import clock as clock
from tests.conformance.support.engine import Engine

pytestmark = pytest.mark.sqlite_file


def change(engine: Engine, label: str, assignment: str, **values: Any) -> None:
    engine.change(f"UPDATE steps SET {assignment} WHERE id = :id", id=engine.refs[label].id, **values)


@pytest.mark.parametrize("is_dispatched", [False, True])
def test_a_renamed_action_is_run_by_those_who_know_it(engine: Engine, is_dispatched: bool) -> None:
    """The agenda had the old name: its workers claimed the step, and failed it as unknown."""
    engine.app.job(name="renamed")(lambda outcome="ok": "by the new name")
    engine.plant("a, b, nobody")
    with engine.worker():
        if is_dispatched:
            engine.tick()
        change(engine, "a", "action = 'renamed'")
        change(engine, "nobody", "action = 'nobody'")
    engine.settle()
    assert engine["a"].response == "by the new name"
    assert engine.states("a", "b") == {"a": "Completed", "b": "Completed"}
    assert engine.state("nobody") == ("Dispatched" if is_dispatched else "Pending")  # the reaper returns it
    why = engine.app.explain(engine.refs["nobody"]).summary
    assert "no live worker serves queue 'default' and action 'nobody'" in why


def test_a_step_that_is_moved_to_another_queue_runs_there(engine: Engine) -> None:
    engine.plant("a, b")
    change(engine, "a", "queue = 'candles'")
    runner = engine.app.inline_runner(queues=["default"])
    engine.tick()
    assert [claim.step_id for claim in runner.claim(9)] == [engine.refs["b"].id]
    runner.close()
    engine.clock.advance(3_600)
    engine.app.reaper().round()
    engine.settle()
    assert engine.states() == {"a": "Completed", "b": "Completed"}


def test_a_step_that_is_given_high_priority_comes_first(engine: Engine) -> None:
    engine.plant("a, b")
    change(engine, "b", "priority = 'high'")
    with engine.worker(slots=1) as runner:
        engine.tick()
        assert [claim.step_id for claim in runner.claim(1)] == [engine.refs["b"].id]


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M"])
def test_a_step_that_is_postponed_waits_and_one_that_is_due_earlier_runs(engine: Engine, form: str) -> None:
    engine.plant("later, sooner, now")
    later = engine.clock.now() + timedelta(days=2)
    change(engine, "sooner", f"dispatch_after = '{later:{form}}'")
    engine.tick()
    change(engine, "later", f"dispatch_after = '{later:{form}}'")
    change(engine, "sooner", "dispatch_after = NULL")
    engine.app.run_until_idle()
    assert engine.states() == {"later": "Pending", "sooner": "Completed", "now": "Completed"}
    assert engine["later"].dispatch_after == later
    assert engine.app.explain(engine.refs["later"]).expected_at == later
    engine.settle()
    assert engine.state("later") == "Completed"


@pytest.mark.parametrize("moment", ["garbage", "2026-02-31", "2100-01-01 00:00:00.00000x", "10000-01-01", ""])
def test_a_time_that_is_none_is_refused(engine: Engine, moment: str) -> None:
    engine.plant("a")
    with pytest.raises(DATABASE_ERRORS):
        change(engine, "a", f"dispatch_after = '{moment}'")
    engine.settle()
    assert engine.state("a") == "Completed"


def test_a_key_that_is_given_later_holds(engine: Engine) -> None:
    engine.plant("a, b, c")
    engine.change("UPDATE steps SET concurrency_key = 'k'")
    with engine.worker() as runner:
        engine.tick()
        (one,) = runner.claim(9)
        other = next(label for label, ref in engine.refs.items() if ref.id != one.step_id)
        change(engine, other, "concurrency_key = NULL")
        engine.tick()
        assert len(runner.claim(9)) == 1
    engine.clock.advance(3_600)
    engine.app.reaper().round()
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


def test_a_renamed_action_is_counted_under_its_new_name(engine: Engine) -> None:
    engine.plant("a")
    engine.change("INSERT INTO steps (action) VALUES ('before')")
    engine.change("UPDATE steps SET action = 'after'")
    assert [str(violation) for violation in engine.app.check_invariants()] == []
