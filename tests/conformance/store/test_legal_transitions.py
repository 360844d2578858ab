"""The database itself enforces the transition table, whoever writes to it; stale writes change nothing."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from stepwell import ActionRefused, IllegalTransition, Permanent, Reschedule, Retry, Skip, State, Stepwell, Stop
from stepwell.model.claimed import Claim, ClaimedStep
from stepwell.model.states import is_legal
from stepwell.run.finish import Finisher
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine, in_processes, other_app, plain_connection, raised, returned

REFUSAL = (sqlite3.IntegrityError, psycopg.Error)


def insert_step(engine: Engine, state: State) -> int:
    """A row in any state, its own code done, so that it may be Running without a lease: an INSERT is no transition."""
    engine.change(
        """INSERT INTO steps (action, state, own_code_done_at, placed, "group", queue, priority, max_retries, timeout,
                              cooldown, concurrency_limit)
           VALUES ('x', :state, '2026-01-01 00:00:00', true, 'alpha', 'default', 'default', 3, 0, 0, 1)""",
        state=str(state),
    )
    newest: int = engine.sql("SELECT max(id) AS id FROM steps")[0]["id"]
    return newest


def marks(app: Stepwell, sql: str) -> str:
    return sql if app.database.dialect == "sqlite" else sql.replace("?", "%s")


def move(app: Stepwell, connection: Any, step_id: int, target: State, actor: str | None) -> None:
    connection.execute(
        marks(app, "UPDATE steps SET state = ?, actor = ? WHERE id = ?"), (target.value, actor, step_id)
    ).close()


@pytest.fixture
def lawless(lawless_app: Stepwell, clock: ManualClock) -> Engine:
    return Engine(lawless_app, clock)


@pytest.mark.sqlite_file  # plain SQL comes by a connection of its own
@pytest.mark.parametrize("actor", [None, "tick:7", "operator:ann"])
@pytest.mark.parametrize("origin", list(State), ids=str)
def test_plain_sql_moves_a_step_exactly_where_the_table_allows(lawless: Engine, origin: State, actor: str) -> None:
    operator = actor == "operator:ann"
    for target in State:
        step_id = insert_step(lawless, origin)
        before = lawless.snapshot()
        if origin is target or is_legal(origin, target, operator=operator):
            with plain_connection(lawless.app) as connection:
                move(lawless.app, connection, step_id, target, actor)
                connection.commit()
            assert lawless.app.step(step_id).state is target
            written = [t for t in lawless.app.history(step_id) if t.from_state is not None]
            expected = [] if origin is target else [(origin, target, actor)]
            assert [(t.from_state, t.to_state, t.actor) for t in written] == expected
        else:
            with plain_connection(lawless.app) as connection:
                with pytest.raises(REFUSAL, match=f"illegal transition: {origin} to {target}"):
                    move(lawless.app, connection, step_id, target, actor)
                connection.rollback()
            assert lawless.snapshot() == before


@pytest.mark.parametrize("actor", ["Operator:ann", "operator", "the operator:ann", "OPERATOR:ANN", " operator:ann", ""])
def test_only_an_actor_that_is_an_operator_counts_as_one(lawless: Engine, actor: str) -> None:
    step_id = insert_step(lawless, State.FAILED)
    with pytest.raises(IllegalTransition, match="Failed to Pending"):
        lawless.change("UPDATE steps SET state = 'Pending', actor = :actor WHERE id = :id", actor=actor, id=step_id)
    assert lawless.app.step(step_id).state is State.FAILED


def test_one_illegal_row_refuses_the_whole_statement(lawless: Engine) -> None:
    for state in (State.PENDING, State.COMPLETED, State.PENDING):
        insert_step(lawless, state)
    before = lawless.snapshot()
    with pytest.raises(IllegalTransition, match="Completed to Cancelled"):
        lawless.change("UPDATE steps SET state = 'Cancelled'")
    assert lawless.snapshot() == before


@pytest.mark.parametrize("lie", ["'Pending'", "'Running'", "'Completed'", "state", "NULL"])
def test_a_statement_cannot_lie_about_where_it_came_from(lawless: Engine, lie: str) -> None:
    step_id = insert_step(lawless, State.COMPLETED)
    with pytest.raises(IllegalTransition, match="Completed to Failed"):
        lawless.change(f"UPDATE steps SET state = 'Failed', changed_from = {lie} WHERE id = :id", id=step_id)


def test_an_update_that_changes_no_state_writes_no_history(engine: Engine) -> None:
    engine.plant("a:fail")
    engine.settle()
    before = engine.history("a")
    engine.change("UPDATE steps SET label = 'b', state = state WHERE id = :id", id=engine.refs["a"].id)
    assert engine.history("a") == before


@pytest.mark.sqlite_file  # plain SQL comes by a connection of its own
def test_the_history_row_lives_and_dies_with_the_change(engine: Engine) -> None:
    engine.plant("a")
    step_id = engine.refs["a"].id
    count = marks(engine.app, "SELECT count(*) FROM step_transitions WHERE step_id = ?")
    with plain_connection(engine.app) as connection:
        cursor = connection.cursor()
        if not connection.__class__.__module__.startswith("psycopg"):
            cursor.execute("BEGIN")
        move(engine.app, connection, step_id, State.CANCELLED, None)
        assert tuple(cursor.execute(count, (step_id,)).fetchone()) == (2,)
        cursor.close()
        connection.rollback()
    assert engine.path("a") == ["Pending"]
    assert engine.state("a") == "Pending"


# A word that comes too late -------------------------------------------------------------------------------------

WORDS: dict[str, Callable[[Finisher, Claim], State | None]] = {
    "return": lambda say, claim: returned(say, claim, {"n": 1}),
    "return the unstorable": lambda say, claim: returned(say, claim, float("nan")),
    "raise": lambda say, claim: raised(say, claim, RuntimeError("no")),
    "raise permanently": lambda say, claim: raised(say, claim, Permanent("no")),
    "retry": lambda say, claim: raised(say, claim, Retry()),
    "reschedule": lambda say, claim: raised(say, claim, Reschedule(in_=5)),
    "stop": lambda say, claim: raised(say, claim, Stop()),
    "skip": lambda say, claim: raised(say, claim, Skip()),
    "hand back": lambda say, claim: say.hand_back(claim),
}


@pytest.mark.parametrize("word", WORDS)
def test_an_end_is_written_once_and_the_second_write_changes_nothing(engine: Engine, word: str) -> None:
    engine.plant("a")
    finisher = Finisher(engine.app.database)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "a")
        assert WORDS[word](finisher, claim) is engine["a"].state
        before = engine.snapshot()
        for late in WORDS.values():
            assert late(finisher, claim) is None
            assert not finisher.release_lease(claim)
        assert engine.snapshot() == before


def test_a_step_that_has_ended_cannot_be_cancelled_and_the_refusal_names_its_state(engine: Engine) -> None:
    engine.plant("done, passed:skip, broken:fail, stopped:stop")
    engine.settle()
    for label, state in engine.states().items():
        before = engine.snapshot()
        with pytest.raises(ActionRefused, match=rf"step {engine.refs[label].id} \({label}\) is {state} .*cancelled"):
            engine.app.cancel(engine.refs[label], who="ann")
        assert engine.snapshot() == before


# Races --------------------------------------------------------------------------------------------------------

RACERS = 40


def finish_all(url: str, claims: list[Claim]) -> dict[int, str]:
    with other_app(url) as app:
        finisher = Finisher(app.database)
        return {claim.step_id: str(returned(finisher, claim, "done")) for claim in claims}


def cancel_all(url: str, ids: list[int]) -> dict[int, str]:
    answers = {}
    with other_app(url) as app:
        for step_id in ids:
            try:
                app.cancel(step_id, who="ann")
                answers[step_id] = "Cancelled"
            except ActionRefused:
                answers[step_id] = "None"
    return answers


def finish_or_cancel(role: str, url: str, work: list[Any]) -> dict[int, str]:
    return finish_all(url, work) if role == "finish" else cancel_all(url, work)


def race_in_threads(calls: list[tuple[Any, ...]]) -> list[dict[int, str]]:
    answers: list[dict[int, str]] = [{}, {}]
    barrier = threading.Barrier(2)

    def run(place: int) -> None:
        barrier.wait()
        answers[place] = finish_or_cancel(*calls[place])

    threads = [threading.Thread(target=run, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("how", ["threads", "processes"])
def test_of_a_finish_and_a_cancel_at_the_same_time_exactly_one_wins(
    shared_database_url: str, clock: ManualClock, how: str
) -> None:
    with other_app(shared_database_url, clock) as app:
        engine = Engine(app, clock)
        engine.plant(", ".join(f"s{n}" for n in range(RACERS)))
        with engine.worker(slots=RACERS) as runner:
            claims = engine.claim(runner, *engine.refs)
            claims = [Claim(c.step_id, c.token, c.worker, ClaimedStep(retries=0, max_retries=3)) for c in claims]
            ids = [claim.step_id for claim in claims]
            # They meet in the middle: one goes up the list, the other down.
            calls = [("finish", shared_database_url, claims), ("cancel", shared_database_url, ids[::-1])]
            finished, cancelled = (
                in_processes(finish_or_cancel, calls) if how == "processes" else race_in_threads(calls)
            )
        for step_id in ids:
            state = str(app.step(step_id).state)
            assert {finished[step_id], cancelled[step_id]} == {state, "None"}
            assert [str(t.to_state) for t in app.history(step_id)] == ["Pending", "Dispatched", "Running", state]
        assert app.check_invariants() == []


def finish_one(url: str, claim: Claim) -> str:
    with other_app(url) as app:
        return str(returned(Finisher(app.database), claim, "done"))


@pytest.mark.slow
def test_of_many_processes_that_finish_one_step_exactly_one_succeeds(
    shared_database_url: str, clock: ManualClock
) -> None:
    with other_app(shared_database_url, clock) as app:
        engine = Engine(app, clock)
        engine.plant("a")
        with engine.worker() as runner:
            (claim,) = engine.claim(runner, "a")
            claim = Claim(claim.step_id, claim.token, claim.worker)
            answers = in_processes(finish_one, [(shared_database_url, claim)] * 3)
        assert sorted(answers) == ["Completed", "None", "None"]
        assert engine.path("a") == ["Pending", "Dispatched", "Running", "Completed"]
