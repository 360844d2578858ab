"""The seam for what follows a transition: in the transaction that makes it, and again after the commit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stepwell import State
from stepwell.events import StepChanged, StepCompleted, StepCreated
from stepwell.store import Change, Transaction
from stepwell.store.engine import creation
from tests.conformance.support.engine import Engine, plain_connection


def test_a_hook_in_the_transaction_writes_with_the_change_and_is_told_who_changed_what(engine: Engine) -> None:
    seen: list[tuple[int, State | None, State, str | None]] = []

    def follow(tx: Transaction, changes: Sequence[Change]) -> None:
        for change in changes:
            seen.append((change.step_id, change.from_state, change.to_state, change.actor))
            creation.add_queue(tx, name=f"{change.to_state} {change.step_id}")

    engine.app.database.hooks.in_transaction(follow)
    engine.plant("step")
    step = engine["step"]
    engine.app.cancel(step, who="ann")
    assert seen == [(step.id, None, State.PENDING, None), (step.id, State.PENDING, State.CANCELLED, "operator:ann")]
    names = {row["name"] for row in engine.sql("SELECT name FROM steps_queues")}
    assert {f"Pending {step.id}", f"Cancelled {step.id}"} <= names


def test_a_hook_that_raises_undoes_the_change_and_nobody_is_told_after_it(engine: Engine) -> None:
    engine.plant("step")
    told: list[StepChanged] = []
    engine.app.events.on(StepChanged)(told.append)

    def refuse(tx: Transaction, changes: Sequence[Change]) -> None:
        raise RuntimeError("not now")

    engine.app.database.hooks.in_transaction(refuse)
    before = engine.snapshot()
    with pytest.raises(RuntimeError, match="not now"):
        engine.app.cancel(engine.refs["step"], who="ann")
    assert (engine.snapshot(), told) == (before, [])


def test_events_are_published_after_the_commit_with_the_facts_of_the_history(engine: Engine) -> None:
    states: list[State] = []
    durations: list[float | None] = []

    @engine.app.events.on(StepChanged)
    def look(event: StepChanged) -> None:
        assert engine.app.step(event.step_id).state in (event.to_state, State.RUNNING, State.COMPLETED)
        states.append(event.to_state)

    engine.app.events.on(StepCompleted)(lambda event: durations.append(event.duration))
    engine.plant("step")
    engine.settle()
    assert [str(state) for state in states] == engine.path("step")
    assert durations[0] is not None


def test_a_step_that_plain_sql_wrote_is_announced_when_it_gets_its_place(engine: Engine) -> None:
    created: list[StepCreated] = []
    engine.app.events.on(StepCreated)(created.append)
    with plain_connection(engine.app) as connection:
        connection.execute("INSERT INTO steps (action) VALUES ('behave')")
        connection.commit()
    assert created == []
    engine.settle()
    assert [event.action for event in created] == ["behave"]


def test_a_step_created_in_the_callers_own_transaction_is_announced_to_nobody_before_or_after_it(
    engine: Engine,
) -> None:
    """When that commits is the caller's affair: only what Stepwell commits itself is announced."""
    told: list[StepChanged] = []
    engine.app.events.on(StepChanged)(told.append)
    with plain_connection(engine.app) as connection:
        if engine.app.database.dialect == "sqlite" and not engine.app.database.is_shared:
            connection.execute("BEGIN IMMEDIATE")
        ref = engine.app.enqueue("nobody", connection=connection)
        connection.commit()
    assert engine.app.step(ref).state is State.PENDING
    assert told == []
