"""Two transactions at once on PostgreSQL, stepped so that they meet exactly where it hurts.

SQLite lets one writer in at a time, so none of these can happen there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from stepwell import Stepwell
from stepwell.dispatch.phases import PhaseContext, dispatch, pick
from stepwell.run.claim import Claimer
from stepwell.store.engine import agenda
from stepwell.store.statement import Statement
from stepwell.testing import ManualClock
from tests.conformance.support.asides import Aside
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, make_succeed, run, run_level, tick


@pytest.fixture
def database_url(postgres_url: str) -> str:
    return postgres_url


@contextmanager
def transaction(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction of somebody else; it commits at the end."""
    with psycopg.connect(url) as connection:
        yield connection


def test_a_retry_is_not_undone_by_a_cascade_that_began_before_it(
    engine: Engine, clock: ManualClock, database_url: str
) -> None:
    engine.plant("parent:fail(child)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "parent")
    make_succeed(engine, "parent")
    with transaction(database_url) as other:
        other.execute("SELECT id FROM steps WHERE id = %s FOR UPDATE", (engine.refs["child"].id,))
        cascade = Aside(database_url, clock, tick)
        cascade.waits()  # it has seen the parent Failed, and wants to fail the child
        retry = Aside(database_url, clock, lambda app: app.retry(engine.refs["parent"], who="tester"))
        retry.waits_or_ends()
    cascade.ends()
    retry.ends()
    engine.settle()
    assert engine.states() == {"parent": "Completed", "child": "Completed"}


def test_a_parent_does_not_fail_while_its_child_is_being_retried(
    engine: Engine, clock: ManualClock, database_url: str
) -> None:
    engine.plant("parent(child:fail)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "parent")
        run_level(engine, runner, "child")
    make_succeed(engine, "child")
    with transaction(database_url) as other:
        other.execute("SELECT id FROM steps WHERE id = %s FOR UPDATE", (engine.refs["parent"].id,))
        cascade = Aside(database_url, clock, tick)
        cascade.waits()  # it has seen the child Failed, and wants to fail the parent
        retry = Aside(database_url, clock, lambda app: app.retry(engine.refs["child"], who="tester"))
        retry.waits()
    cascade.ends()
    retry.ends()
    engine.settle()
    assert engine.states() == {"parent": "Completed", "child": "Completed"}


@pytest.mark.parametrize(("outcome", "late_end"), [("ok", "Completed"), ("fail", "Failed")])
def test_a_parent_is_not_decided_while_a_child_is_being_added_to_it(
    engine: Engine, clock: ManualClock, database_url: str, outcome: str, late_end: str
) -> None:
    engine.plant(f"parent(first:{outcome})", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "parent")
        run_level(engine, runner, "first")
    with transaction(database_url) as caller:
        late = engine.app.enqueue("behave", parent=engine.refs["parent"], connection=caller)
        cascade = Aside(database_url, clock, tick)
        cascade.waits()
    cascade.ends()
    assert engine.state("parent") == "Running"
    assert engine.app.step(late).state in ("Pending", "Dispatched")
    engine.settle()
    assert engine.app.step(late).state == "Completed"
    assert engine.state("parent") == late_end


def test_a_child_that_was_not_added_after_all_leaves_its_parent_to_be_decided(
    engine: Engine, clock: ManualClock, database_url: str
) -> None:
    engine.plant("parent(first)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "parent")
        run_level(engine, runner, "first")
    with transaction(database_url) as caller:
        engine.app.enqueue("behave", parent=engine.refs["parent"], connection=caller)
        cascade = Aside(database_url, clock, tick)
        cascade.waits()
        caller.rollback()
    cascade.ends()
    engine.settle()
    assert engine.state("parent") == "Completed"


@pytest.mark.parametrize(("action", "state"), [("cancel", "Cancelled"), ("skip", "Skipped")])
def test_a_child_that_is_created_while_its_parent_goes_with_the_grandparent_goes_too(
    engine: Engine, clock: ManualClock, database_url: str, action: str, state: str
) -> None:
    engine.plant("top(parent), other(x)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "top")
        (parent,) = engine.claim(runner, "parent")
        engine.app.skip(engine.refs["other"], who="tester")
        assert tick(engine.app).ended_early  # so the next one runs all phases and forgets the marks
        getattr(engine.app, action)(engine.refs["top"], who="tester")
        with transaction(database_url) as caller:
            late = engine.app.enqueue("behave", parent=engine.refs["parent"], connection=caller)
            cascade = Aside(database_url, clock, tick)
            cascade.waits()
        cascade.ends()
        engine.tick()
        assert (engine.state("parent"), engine.app.step(late).state) == (state, state)
        run(runner, parent)


class _Interrupted:
    """A transaction that lets something else happen right after the statements that are named."""

    def __init__(self, tx: Any, after: dict[str, Callable[[], Any]]) -> None:
        self._tx = tx
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def query(self, statement: Statement, parameters: dict[str, Any]) -> Any:
        found = self._tx.query(statement, parameters)
        self._after.get(statement.name, lambda: None)()
        return found


def test_the_bound_on_dispatched_holds_when_work_comes_into_a_queue_between_the_lock_and_the_pick(
    engine: Engine, clock: ManualClock, database_url: str
) -> None:
    runner = engine.app.inline_runner(slots=2)
    engine.plant(", ".join(f"a{number}" for number in range(8)), group="alpha", queue="candles")
    after = {
        "lock_queues": lambda: engine.plant(
            ", ".join(f"b{number}" for number in range(8)), group="beta", queue="candles"
        ),
        "pick": lambda: tick(engine.app, "alpha"),
    }

    def dispatch_beta(tx: Any) -> None:
        at = PhaseContext("beta", "tick:0", clock.now())
        interrupted: Any = _Interrupted(tx, after)
        dispatch(interrupted, at, pick(interrupted, at, 100), 0)

    with Stepwell(database_url, clock=clock) as second:
        second.database.transact(dispatch_beta)
    runner.close()
    assert engine.app.stats().states["Dispatched"] == 4


def test_a_pause_of_a_workflow_leaves_nothing_of_it_on_the_agenda(
    engine: Engine, clock: ManualClock, database_url: str
) -> None:
    engine.plant("root(first > second)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        run_level(engine, runner, "first")
        with transaction(database_url) as other:
            other.execute(
                "INSERT INTO steps_agenda (step_id, status, queue, action, rank) VALUES (%s, 'open', 'x', 'x', 1)",
                (engine.refs["second"].id,),
            )
            gates = Aside(database_url, clock, tick)
            gates.waits()  # it wants to open the gate of the second
            pause = Aside(database_url, clock, lambda app: app.pause_workflow(engine.refs["root"], who="tester"))
            pause.waits_or_ends()
            other.rollback()
        gates.ends()
        pause.ends()
        engine.tick()
        assert engine.sql("SELECT step_id FROM steps_agenda WHERE status IN ('open', 'delayed', 'unchecked')") == []


def test_a_gate_is_not_opened_for_a_step_that_has_run_meanwhile(
    engine: Engine, clock: ManualClock, database_url: str
) -> None:
    """The end of another step has let it in, and a worker was quick, while a tick still looked at an older picture."""
    ref = engine.add("quick")

    def open_it(app: Stepwell) -> None:
        app.database.transact(lambda tx: agenda.open_ready(tx, ids=[ref.id], now=app.database.now()))

    with transaction(database_url) as connection:
        connection.execute("DELETE FROM steps_agenda")  # as if it had waited until now
        connection.commit()
        connection.execute(
            'INSERT INTO steps_agenda (step_id, status, "group", queue, action, rank) '
            "SELECT id, 'open', \"group\", queue, action, 1 FROM steps"
        )
        connection.execute("UPDATE steps SET state = 'Dispatched'")
        connection.execute("UPDATE steps SET state = 'Running', lease_worker = 'w', lease_token = 1")
        connection.execute("UPDATE steps SET state = 'Completed', lease_worker = NULL")
        aside = Aside(database_url, clock, open_it)
        aside.waits()
    aside.ends()
    assert engine.app.sweep() == []
    assert engine.path("quick") == ["Pending", "Dispatched", "Running", "Completed"]


@pytest.mark.parametrize(("slots", "expected"), [(1, ["old"]), (2, ["young"])])
def test_a_worker_with_one_slot_waits_for_a_tick_that_is_dispatching_older_steps(
    engine: Engine, clock: ManualClock, database_url: str, slots: int, expected: list[str]
) -> None:
    """With more slots the order of starts is no promise, and a claim passes over what a tick has locked."""
    engine.plant("old, young")
    runner = engine.app.inline_runner(slots=slots)
    claimer = Claimer(engine.app.database, runner.worker)
    taken: list[int] = []

    def claim(app: Stepwell) -> None:
        taken.extend(claim.step_id for claim in app.database.transact(lambda tx: claimer.claim(tx, 1)))

    with transaction(database_url) as other, engine.app.database.within(other) as tx:
        group = engine["old"].group or ""
        at = PhaseContext(group, "tick:1", clock.now())
        assert dispatch(tx, at, pick(tx, at, 1), 1) == 1  # not committed yet
        aside = Aside(database_url, clock, claim)
        (aside.waits if slots == 1 else aside.ends)()
    aside.ends()
    assert taken == [engine.refs[label].id for label in expected]
    runner.close()
