"""A step that is created in the caller's own transaction is committed and rolled back with it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg
import psycopg.rows
import pytest

from stepwell import DatabaseBusy, InvalidStep, KeyConflict, NewStep, Stepwell, StepwellError
from stepwell.run.finish import Finisher
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine, failed, returned

pytestmark = pytest.mark.sqlite_file  # the caller's connection is another one


def connect(app: Stepwell, **settings: Any) -> Any:
    """A connection of the caller's own, with the driver's defaults."""
    if app.database.dialect == "sqlite":
        return sqlite3.connect(app.database.url.removeprefix("sqlite:///"), timeout=0.1, **settings)
    return psycopg.connect(app.database.url, **settings)


@pytest.fixture
def app(shared_database_url: str, clock: ManualClock) -> Iterator[Stepwell]:
    """An engine on every database that a second connection can reach."""
    app = Stepwell(shared_database_url, clock=clock)
    try:
        yield app
    finally:
        app.close()


@pytest.fixture
def connection(app: Stepwell) -> Iterator[Any]:
    with closing(connect(app)) as connection:
        connection.execute("CREATE TABLE orders (id integer PRIMARY KEY)")
        connection.commit()
        yield connection


def orders(app: Stepwell) -> int:
    with closing(connect(app)) as connection:
        return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])


def test_a_commit_keeps_the_step_together_with_the_caller_s_rows(engine: Engine, connection: Any) -> None:
    connection.execute("INSERT INTO orders VALUES (1)")
    ref = engine.app.enqueue("behave", connection=connection)
    assert engine.app.steps() == []
    connection.commit()
    assert orders(engine.app) == 1
    assert engine.app.run_until_idle() == 1
    assert str(engine.app.step(ref).state) == "Completed"


def test_a_rollback_takes_everything_back(engine: Engine, connection: Any) -> None:
    engine.plant("there(child)")
    before = engine.snapshot()
    connection.execute("INSERT INTO orders VALUES (1)")
    parent = NewStep(action="behave", group="a new group")
    drafts = [parent, NewStep(action="behave", parent=parent), NewStep(action="behave", depends_on=[parent], key="k")]
    engine.app.enqueue_many(drafts, connection=connection)
    engine.app.enqueue("behave", parent=engine.refs["there"], connection=connection)
    engine.app.enqueue("behave", depends_on=[engine.refs["there"]], connection=connection)
    engine.app.enqueue("behave", block=engine["there"].block_uuid, index=2, connection=connection)
    connection.rollback()
    assert engine.snapshot() == before
    assert orders(engine.app) == 0
    assert len(engine.app.groups()) == 10
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


def test_the_driver_s_own_way_to_end_a_transaction_counts(engine: Engine, connection: Any) -> None:
    with connection:
        engine.app.enqueue("behave", connection=connection)
    assert len(engine.app.steps()) == 1
    with closing(connect(engine.app)) as other, suppress(ZeroDivisionError), other:
        engine.app.enqueue("behave", connection=other)
        raise ZeroDivisionError
    assert len(engine.app.steps()) == 1


def test_a_connection_that_is_closed_without_a_commit_creates_nothing(engine: Engine, connection: Any) -> None:
    with closing(connect(engine.app)) as other:
        engine.app.enqueue("behave", connection=other)
    assert engine.app.steps() == []


def test_trees_and_keys_work_inside_a_transaction(engine: Engine, connection: Any) -> None:
    first = engine.app.enqueue("behave", key="k", label="root", connection=connection)
    assert engine.app.enqueue("behave", key="k", connection=connection) == first
    child = engine.app.enqueue("behave", parent=first, connection=connection)
    after = engine.app.enqueue("behave", depends_on=[child], connection=connection)
    with pytest.raises(KeyConflict):
        engine.app.enqueue("other", key="k", connection=connection)
    connection.commit()
    engine.settle()
    states = [str(engine.app.step(ref).state) for ref in (first, child, after)]
    assert states == ["Completed"] * 3
    assert engine.app.step(child).workflow_id == engine.app.step(after).workflow_id == first.uuid


def test_a_refusal_leaves_the_transaction_usable_and_without_a_trace(engine: Engine, connection: Any) -> None:
    engine.plant("there")
    before = engine.snapshot()
    connection.execute("INSERT INTO orders VALUES (1)")
    loop = NewStep(action="behave", group="odd", parent=engine.refs["there"], depends_on=[engine.refs["there"]])
    for bad in (
        {"group": "never", "parent": 987_654},
        {"arguments": {"n": float("nan")}},
        {"parent": 2**70},
        {"block": "no"},
    ):
        with pytest.raises(InvalidStep):
            engine.app.enqueue("behave", connection=connection, **bad)
    with pytest.raises(InvalidStep):
        engine.app.enqueue_many([loop], connection=connection)
    connection.execute("INSERT INTO orders VALUES (2)")
    connection.commit()
    assert orders(engine.app) == 2
    assert engine.snapshot() == before
    assert len(engine.app.groups()) == 10


def test_a_circle_that_is_refused_leaves_no_new_group_behind(engine: Engine, connection: Any) -> None:
    root = NewStep(action="behave", group="new", label="root")
    loop = NewStep(action="behave", parent=root, depends_on=[root])
    with pytest.raises(InvalidStep, match="forever"):
        engine.app.enqueue_many([root, loop], connection=connection)
    connection.commit()
    assert len(engine.app.groups()) == 10


ROW_FACTORIES: dict[str, Callable[[Any], None]] = {
    "sqlite3.Row": lambda connection: setattr(connection, "row_factory", sqlite3.Row),
    "a dict": lambda connection: setattr(
        connection, "row_factory", lambda cursor, row: {c[0]: v for c, v in zip(cursor.description, row, strict=True)}
    ),
    "dict_row": lambda connection: setattr(connection, "row_factory", psycopg.rows.dict_row),
    "namedtuple_row": lambda connection: setattr(connection, "row_factory", psycopg.rows.namedtuple_row),
    "scalar_row": lambda connection: setattr(connection, "row_factory", psycopg.rows.scalar_row),
}


@pytest.mark.parametrize("factory", ROW_FACTORIES)
def test_the_caller_s_row_factory_does_not_matter_and_stays(engine: Engine, connection: Any, factory: str) -> None:
    is_sqlite = engine.app.database.dialect == "sqlite"
    if is_sqlite != (factory in ("sqlite3.Row", "a dict")):
        factory = "sqlite3.Row" if is_sqlite else "dict_row"
    ROW_FACTORIES[factory](connection)
    own = connection.row_factory
    parent = engine.app.enqueue("behave", key="k", connection=connection)
    assert engine.app.enqueue("behave", key="k", connection=connection) == parent
    children = [NewStep(action="behave", parent=parent) for _ in range(3)]
    engine.app.enqueue_many([*children, NewStep(action="behave", depends_on=children)], connection=connection)
    assert connection.row_factory is own
    connection.commit()
    engine.settle()
    assert {str(step.state) for step in engine.app.steps()} == {"Completed"}


def test_the_caller_s_types_are_not_touched(engine: Engine, connection: Any) -> None:
    if engine.app.database.dialect == "sqlite":
        connection.execute("SELECT 1")
        return
    query = """SELECT '{"a": 1}'::json, '00000000-0000-0000-0000-000000000001'::uuid"""
    before = connection.execute(query).fetchone()
    engine.app.enqueue("behave", connection=connection)
    assert connection.execute(query).fetchone() == before


def test_a_connection_without_a_transaction_is_refused(engine: Engine) -> None:
    no_transaction = {"isolation_level": None} if engine.app.database.dialect == "sqlite" else {"autocommit": True}
    with closing(connect(engine.app, **no_transaction)) as connection:
        with pytest.raises(StepwellError, match="autocommit"):
            engine.app.enqueue("behave", connection=connection)
        connection.execute("BEGIN")
        engine.app.enqueue("behave", connection=connection)
        connection.execute("ROLLBACK")
        assert engine.app.steps() == []
        connection.execute("BEGIN")
        engine.app.enqueue("behave", connection=connection)
        connection.execute("COMMIT")
        assert len(engine.app.steps()) == 1


def test_a_savepoint_takes_a_step_back_and_leaves_the_others(engine: Engine, connection: Any) -> None:
    kept = engine.app.enqueue("behave", connection=connection)
    connection.execute("SAVEPOINT here")
    engine.app.enqueue("behave", connection=connection)
    connection.execute("ROLLBACK TO SAVEPOINT here")
    connection.commit()
    assert [step.id for step in engine.app.steps()] == [kept.id]
    engine.settle()


def test_a_connection_to_the_other_kind_of_database_is_refused(engine: Engine, tmp_path: Any) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as lite:
        wrong: Any = object() if engine.app.database.dialect == "sqlite" else lite
        with pytest.raises(TypeError, match="it cannot use a"):
            engine.app.enqueue("behave", connection=wrong)


def test_a_busy_database_is_an_error_of_stepwell_s_own(engine: Engine, connection: Any) -> None:
    """SQLite has one writer: a transaction that cannot become it fails, and says so in terms a caller can catch."""
    if engine.app.database.dialect != "sqlite":
        return
    with closing(connect(engine.app)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusy):
            engine.app.enqueue("behave", connection=connection)
        holder.rollback()
    engine.app.enqueue("behave", connection=connection)
    connection.commit()


# Meanwhile, the engine ----------------------------------------------------------------------------------------------


def while_it_is_open(app: Stepwell, connection: Any, work: Callable[[], Any]) -> None:
    """Run `work` in a thread, commit the caller's transaction when the work waits for it, and see both through."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    if app.database.dialect == "sqlite":
        connection.commit()  # whoever wants to write waits at the door: there is nothing between
        thread.start()
    else:
        thread.start()
        with psycopg.connect(app.database.url, autocommit=True) as watcher:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
            while thread.is_alive() and watcher.execute(waiting, [connection.info.backend_pid]).fetchone() == (0,):
                pass
        connection.commit()
    thread.join(60)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("outcome", ["Completed", "Failed"])
def test_a_parent_does_not_end_while_a_child_of_it_is_being_created(
    engine: Engine, connection: Any, outcome: str
) -> None:
    engine.plant("parent(child)")
    finisher = Finisher(engine.app.database)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "parent")
        returned(finisher, claim, None)
        (claim,) = engine.claim(runner, "child")
        if outcome == "Completed":
            returned(finisher, claim, None)
        else:
            failed(finisher, claim, "no")
        late = engine.app.enqueue("behave", label="late", parent=engine.refs["parent"], connection=connection)
        while_it_is_open(engine.app, connection, engine.tick)
        assert engine.state("parent") == "Running"
    engine.settle()
    assert engine.state("parent") == outcome
    assert str(engine.app.step(late).state) == "Completed"


@pytest.mark.parametrize("act", ["cancel", "skip"])
@pytest.mark.parametrize("started", [False, True], ids=["waiting to run", "waiting for children"])
def test_a_child_that_is_created_while_its_ancestor_is_ended_ends_with_it(
    engine: Engine, connection: Any, act: str, started: bool
) -> None:
    engine.plant("root(parent(child))")
    finisher = Finisher(engine.app.database)
    with engine.worker() as runner:
        for label in ("root", "parent") if started else ("root",):
            (claim,) = engine.claim(runner, label)
            returned(finisher, claim, None)
    getattr(engine.app, act)(engine.refs["root"], who="ann")
    late = engine.app.enqueue("behave", label="late", parent=engine.refs["parent"], connection=connection)
    while_it_is_open(engine.app, connection, engine.tick)
    engine.tick()
    ended = {"cancel": "Cancelled", "skip": "Skipped"}[act]
    assert set(engine.states().values()) == {ended}
    assert str(engine.app.step(late).state) == ended


def test_a_step_that_depends_on_one_that_is_just_ending_is_not_forgotten(engine: Engine, connection: Any) -> None:
    engine.plant("first")
    finisher = Finisher(engine.app.database)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "first")
        after = engine.app.enqueue("behave", depends_on=[engine.refs["first"]], connection=connection)
        while_it_is_open(engine.app, connection, lambda: returned(finisher, claim, None))
    engine.settle()
    assert str(engine.app.step(after).state) == "Completed"


def test_a_child_of_a_parent_that_is_just_ending_is_refused_or_waited_for(engine: Engine, connection: Any) -> None:
    engine.plant("parent")
    finisher = Finisher(engine.app.database)
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "parent")
        child = engine.app.enqueue("behave", parent=engine.refs["parent"], connection=connection)
        while_it_is_open(engine.app, connection, lambda: returned(finisher, claim, None))
        assert engine.state("parent") == "Running"
    engine.settle()
    assert engine.state("parent") == str(engine.app.step(child).state) == "Completed"


def test_a_child_of_a_parent_that_is_just_being_cancelled_is_refused(engine: Engine, connection: Any) -> None:
    engine.plant("parent")
    parent = engine.refs["parent"]
    connection.execute(f"UPDATE steps SET state = 'Cancelled', actor = 'operator:ann' WHERE id = {parent.id}")
    with pytest.raises(InvalidStep, match="which has ended"):
        while_it_is_open(engine.app, connection, lambda: engine.app.enqueue("behave", parent=parent))
    assert engine.states() == {"parent": "Cancelled"}
    assert len(engine.app.steps()) == 1
