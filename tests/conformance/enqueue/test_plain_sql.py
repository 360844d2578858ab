"""The documented INSERT: a row of plain SQL is adopted by the next tick, and a bad one is refused with the reason."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from stepwell import InvalidStep, Step, StepRef
from stepwell.testing import ManualClock
from tests.conformance.enqueue.test_groups import ROTATION
from tests.conformance.support.engine import Engine, in_processes, other_app, plain_connection

pytestmark = pytest.mark.sqlite_file  # plain SQL comes by a connection of its own

DATABASE_ERRORS = (sqlite3.Error, psycopg.Error)


@pytest.fixture
def clock() -> ManualClock:
    """Rows that plain SQL writes bear the time of the real database: the engine's must come after it."""
    return ManualClock(datetime(2100, 1, 1, tzinfo=UTC))


def insert(engine: Engine, label: str | None = None, action: str = "behave", **columns: Any) -> StepRef:
    """What a user's own program would do, through its own connection."""
    columns = {"action": action, "label": label, **columns}
    names = ", ".join(f'"{name}"' for name in columns)
    holes = ", ".join(["?" if engine.app.database.dialect == "sqlite" else "%s"] * len(columns))
    values = [json.dumps(value) if isinstance(value, dict) else value for value in columns.values()]
    with plain_connection(engine.app) as connection:
        (id_, uuid) = connection.execute(
            f"INSERT INTO steps ({names}) VALUES ({holes}) RETURNING id, uuid", values
        ).fetchone()
        connection.commit()
    ref = StepRef(id_, str(uuid))
    engine.refs[label or f"step {id_}"] = ref
    return ref


def refused(step: Step) -> str:
    assert (str(step.state), step.reason) == ("Failed", "refused"), step
    assert step.error_message
    assert step.completed_at is not None
    return step.error_message


def test_an_action_is_enough(engine: Engine) -> None:
    with plain_connection(engine.app) as connection:
        connection.execute("INSERT INTO steps (action) VALUES ('behave')")
        connection.execute("""INSERT INTO steps (action, arguments) VALUES ('behave', '{"result": [1, 2]}')""")
        connection.commit()
    newer, older = engine.app.steps()
    assert (str(older.state), older.group, older.block_uuid) == ("Pending", None, None)
    assert "plain SQL" in engine.app.explain(older).summary
    engine.settle()
    assert [str(engine.app.step(step).state) for step in (older, newer)] == ["Completed"] * 2
    assert engine.app.step(newer).response == [1, 2]
    assert [str(t.to_state) for t in engine.app.history(older)] == ["Pending", "Dispatched", "Running", "Completed"]


def test_a_row_gets_all_that_the_api_would_have_given_it(engine: Engine) -> None:
    insert(engine, "sql")
    engine.tick()
    engine.refs["api"] = engine.app.enqueue("behave", label="api")
    sql, api = engine["sql"], engine["api"]
    for name in ("index", "type", "arguments", "queue", "priority", "state", "max_retries", "timeout", "has_children"):
        assert getattr(sql, name) == getattr(api, name), name
    assert sql.block_uuid == sql.workflow_id == sql.uuid
    assert [sql.group, api.group] == ROTATION[:2]


def test_rows_take_the_groups_in_turn(engine: Engine) -> None:
    for _ in range(20):
        insert(engine)
    engine.tick()
    assert Counter(engine[label].group for label in engine.refs) == dict.fromkeys(ROTATION, 2)


def test_a_row_with_a_parent_becomes_its_child(engine: Engine) -> None:
    parent = insert(engine, "parent", priority="high")
    insert(engine, "child", parent_step_id=parent.id)
    insert(engine, "grandchild", parent_step_id=engine.refs["child"].id, index=0)
    engine.tick()
    above = engine["parent"]
    for label in ("child", "grandchild"):
        below = engine[label]
        assert below.parent_step_id == above.id
        assert below.block_uuid == above.child_block_uuid is not None
        assert (below.group, below.workflow_id, below.index) == (above.group, above.workflow_id, 1)
        assert (below.priority, below.queue) == ("high", "priority")
        above = below
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}
    assert engine.history("grandchild")[-1].id < engine.history("child")[-1].id < engine.history("parent")[-1].id


def test_a_row_can_join_a_parent_of_the_api(engine: Engine) -> None:
    engine.plant("filler, parent(kid)")
    insert(engine, "child", parent_step_id=engine.refs["parent"].id, index=2)
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}
    assert engine["child"].group == engine["parent"].group
    assert engine.history("kid")[-1].id < engine.history("child")[2].id


@pytest.mark.parametrize("first", ["parent", "child"])
def test_a_block_equal_to_a_child_block_makes_a_child_in_either_order(engine: Engine, first: str) -> None:
    block = str(uuid4())
    columns = {"parent": {"child_block_uuid": block}, "child": {"block_uuid": block}}
    for label in ("parent", "child") if first == "parent" else ("child", "parent"):
        insert(engine, label, **columns[label])
    engine.tick()
    parent, child = engine["parent"], engine["child"]
    assert child.parent_step_id == parent.id
    assert (child.group, child.workflow_id) == (parent.group, parent.workflow_id)
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}
    assert engine.history("child")[-1].id < engine.history("parent")[-1].id


def test_a_uuid_may_be_written_in_any_case(engine: Engine) -> None:
    block, workflow = str(uuid4()), str(uuid4())
    insert(engine, "parent", child_block_uuid=block.upper(), workflow_id=workflow.upper(), uuid=str(uuid4()).upper())
    insert(engine, "child", block_uuid=block)
    engine.settle()
    assert engine["child"].parent_step_id == engine["parent"].id
    assert engine["parent"].child_block_uuid == engine["child"].block_uuid == block
    assert engine["child"].workflow_id == workflow
    assert engine["parent"].uuid == engine["parent"].uuid.lower()
    engine.app.step(engine["parent"].uuid)


def test_the_api_ties_nothing_to_a_row_before_it_has_its_place(engine: Engine) -> None:
    block = str(uuid4())
    row = insert(engine, "row", child_block_uuid=block)
    before = engine.snapshot()
    for tie in ({"parent": row}, {"block": block}, {"depends_on": [row]}):
        with pytest.raises(InvalidStep, match=f"step {row.id} was written by plain SQL"):
            engine.add("child", **tie)
    assert engine.snapshot() == before
    engine.tick()
    engine.add("child", parent=row)
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


def test_an_announced_block_without_children_does_not_hold_the_row(engine: Engine) -> None:
    insert(engine, "parent", child_block_uuid=str(uuid4()))
    engine.settle()
    assert engine.state("parent") == "Completed"


def test_rows_of_one_block_run_in_the_order_of_their_indexes(engine: Engine) -> None:
    block = str(uuid4())
    for label, index in {"third": 7, "second": 2, "zero": 0, "none": None}.items():
        insert(engine, label, block_uuid=block, index=index)
    engine.settle()
    assert [engine[label].index for label in ("zero", "none", "second", "third")] == [1, 1, 2, 7]
    assert len({engine[label].group for label in engine.refs}) == 1
    assert len({engine[label].workflow_id for label in engine.refs}) == 1
    order = sorted(engine.refs, key=lambda label: engine.history(label)[-1].id)
    assert (set(order[:2]), order[2:]) == ({"zero", "none"}, ["second", "third"])


def test_no_block_matches_no_block(engine: Engine) -> None:
    """Rows without a block are nobody's children, although other steps have no child block either."""
    engine.plant("root, other(kid)")
    for n in range(3):
        insert(engine, f"sql{n}")
    engine.tick()
    for n in range(3):
        assert engine[f"sql{n}"].parent_step_id is None
    assert len({engine[f"sql{n}"].block_uuid for n in range(3)}) == 3
    assert len({engine[f"sql{n}"].workflow_id for n in range(3)}) == 3


def test_group_queue_and_priority_are_heeded(engine: Engine) -> None:
    insert(engine, "high", priority="high")
    insert(engine, "candles", priority="high", queue="candles")
    insert(engine, "odd", queue="no such queue")
    insert(engine, "mine", group="mine")
    insert(engine, "theta", group="theta")
    engine.tick()
    queues = {label: engine[label].queue for label in engine.refs}
    assert queues == {"high": "priority", "candles": "candles", "odd": "default", "mine": "default", "theta": "default"}
    assert (engine["mine"].group, engine["theta"].group) == ("mine", "theta")
    (row,) = [group for group in engine.app.groups() if group.group == "mine"]
    assert row.rotation is None
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


def test_a_handler_sleeps_until_it_is_needed(engine: Engine) -> None:
    engine.plant("calm(a), storm(b:fail)")
    insert(engine, "idle", type="resolve-exception", parent_step_id=engine.refs["calm"].id)
    insert(engine, "busy", type="resolve-exception", parent_step_id=engine.refs["storm"].id)
    engine.tick()
    assert (engine.state("idle"), engine["idle"].reason) == ("NotRunnable", "dormant")
    engine.settle()
    assert engine.states("calm", "idle", "storm", "busy") == {
        "calm": "Completed", "idle": "NotRunnable", "storm": "Failed", "busy": "Completed",
    }  # fmt: skip


def test_a_delayed_row_waits(engine: Engine) -> None:
    insert(engine, "later", dispatch_after="2100-01-01 00:01:30")
    assert engine.app.run_until_idle() == 0
    engine.clock.advance(90)
    assert engine.app.run_until_idle() == 1


def test_all_documented_columns_arrive(engine: Engine) -> None:
    insert(
        engine, "a", arguments={"result": 5}, max_retries=9, timeout=2.5, cooldown=1, relatable_type="Order",
        relatable_id="7", idempotency_key="order-7", workflow_id=str(uuid4()),
    )  # fmt: skip
    engine.settle()
    step = engine["a"]
    assert (step.response, step.max_retries, step.timeout, step.cooldown) == (5, 9, 2.5, 1.0)
    assert [found.id for found in engine.app.steps(relatable=("Order", 7))] == [step.id]
    assert engine.app.enqueue("behave", {"result": 5}, key="order-7").id == step.id
    with pytest.raises(DATABASE_ERRORS):
        insert(engine, "b", idempotency_key="order-7")


@pytest.mark.slow
def test_thousands_of_rows_are_adopted(engine: Engine) -> None:
    count = 1_200
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
    engine.change(f"{numbers} INSERT INTO steps (action) SELECT 'behave' FROM n")
    engine.tick()
    assert engine.app.stats().agenda == {"open": count}


# What is wrong with a row ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["ok", "fail", "stop", "skip"])
def test_a_child_of_a_parent_that_has_ended_is_refused(engine: Engine, outcome: str) -> None:
    engine.plant(f"parent:{outcome}")
    engine.settle()
    insert(engine, "late", parent_step_id=engine.refs["parent"].id)
    engine.settle()
    assert f"step {engine.refs['parent'].id}, which has ended" in refused(engine["late"])
    late = engine["late"]
    assert (late.parent_step_id, late.block_uuid, late.workflow_id) == (None, late.uuid, late.uuid)
    assert late.group in ROTATION


@pytest.mark.parametrize("end", ["cancel", "skip"])
def test_a_child_of_a_row_that_was_ended_before_it_was_adopted_is_refused(engine: Engine, end: str) -> None:
    parent = insert(engine, "parent")
    getattr(engine.app, end)(parent, who="ann")
    insert(engine, "child", parent_step_id=parent.id)
    insert(engine, "below", parent_step_id=engine.refs["child"].id)
    engine.settle()
    assert f"step {parent.id} was {engine.state('parent')}" in refused(engine["child"])
    refused(engine["below"])


def test_a_refused_row_refuses_its_descendants(engine: Engine) -> None:
    engine.plant("parent")
    engine.settle()
    insert(engine, "late", parent_step_id=engine.refs["parent"].id)
    insert(engine, "below", parent_step_id=engine.refs["late"].id)
    engine.settle()
    refused(engine["late"])
    assert f"step {engine.refs['late'].id}, which has ended" in refused(engine["below"])


def test_a_row_that_contradicts_its_parent_is_refused(engine: Engine) -> None:
    engine.plant("parent(kid)", group="beta")
    parent = engine.refs["parent"].id
    insert(engine, "group", parent_step_id=parent, group="gamma")
    insert(engine, "block", parent_step_id=parent, block_uuid=str(uuid4()))
    insert(engine, "workflow", parent_step_id=parent, workflow_id=str(uuid4()))
    engine.settle()
    assert "beta, gamma" in refused(engine["group"])
    assert "names block" in refused(engine["block"])
    assert "one workflow" in refused(engine["workflow"])
    assert engine.state("parent") == "Completed"


@pytest.mark.parametrize("order", [("alone", "joins"), ("joins", "alone")])
def test_a_row_waits_for_the_one_that_its_block_is_named_after(engine: Engine, order: tuple[str, str]) -> None:
    name = str(uuid4())
    columns: dict[str, dict[str, Any]] = {"alone": {"uuid": name}, "joins": {"block_uuid": name, "index": 2}}
    for label in order:
        insert(engine, label, **columns[label])
    engine.settle()
    assert engine["alone"].workflow_id == engine["joins"].workflow_id
    assert engine.history("alone")[-1].id < engine.history("joins")[2].id
    assert engine.app.sweep() == []


def test_a_row_with_the_name_of_a_block_of_others_is_refused_and_none_of_their_business(engine: Engine) -> None:
    block = str(uuid4())
    engine.add("parent", child_block=block)
    engine.app.enqueue("nobody knows this", block=block)
    engine.add("handler", block=block, type="resolve-exception")
    engine.settle()
    insert(engine, "impostor", uuid=block)
    engine.settle()
    assert "name of an existing block" in refused(engine["impostor"])
    assert engine.state("parent") == "Running"
    assert engine.app.sweep() == []


def test_a_block_that_has_steps_cannot_be_announced_afterwards(engine: Engine) -> None:
    block = str(uuid4())
    insert(engine, "early", block_uuid=block)
    engine.tick()
    insert(engine, "late", child_block_uuid=block)
    engine.settle()
    assert "child_block" in refused(engine["late"])
    assert engine.state("early") == "Completed"


def test_rows_that_are_each_other_s_parents_are_refused(engine: Engine) -> None:
    one, two = str(uuid4()), str(uuid4())
    insert(engine, "hen", block_uuid=one, child_block_uuid=two)
    insert(engine, "egg", block_uuid=two, child_block_uuid=one)
    insert(engine, "narcissus", block_uuid=(own := str(uuid4())), child_block_uuid=own)
    insert(engine, "parent", child_block_uuid=(block := str(uuid4())))
    insert(engine, "impostor", uuid=block, block_uuid=block)
    insert(engine, "innocent")
    engine.settle()
    assert engine.state("innocent") == "Completed"
    assert "hen" in refused(engine["egg"]) or "egg" in refused(engine["hen"])
    refused(engine["narcissus"])
    assert "name of an existing block" in refused(engine["impostor"])
    assert not {"Pending", "Running"} & set(engine.states().values())


@pytest.mark.parametrize("arguments", ["[1, 2]", "7", '"text"', "null", '{"n": 1e999}', '{"t": "\\ud800"}'])
def test_arguments_that_no_job_could_take_are_refused(engine: Engine, arguments: str) -> None:
    insert(engine, "bad", arguments=arguments)
    insert(engine, "good")
    engine.settle()
    assert engine.state("good") == "Completed"
    row = engine.sql("SELECT state, reason, error_message FROM steps WHERE id = :id", id=engine.refs["bad"].id)[0]
    assert (row["state"], row["reason"]) == ("Failed", "refused")
    assert "arguments" in row["error_message"]


BAD_ROWS: list[dict[str, Any]] = [
    {"action": None},
    {"action": ""},
    {"arguments": "{not json"},
    {"arguments": None},
    {"index": -1},
    {"type": "handler"},
    {"priority": "urgent"},
    {"state": "Sleeping"},
    {"trigger_rule": "whenever"},
    {"timeout": -1},
    {"timeout": "soon"},
    {"timeout": float("inf")},
    {"cooldown": "soon"},
    {"cooldown": float("inf")},
    {"index": "first"},
    {"max_retries": "many"},
    {"dispatch_after": "next friday"},
    {"dispatch_after": "2026-13-01 00:00:00"},
    {"dispatch_after": "infinity"},
    {"dispatch_after": "-infinity"},
    {"dispatch_after": "10000-01-01 00:00:00"},
    {"dispatch_after": "0001-01-01 00:00:00 BC"},
    {"dispatch_after": "0000-01-01 00:00:00"},
    {"dispatch_after": "0001-01-01 00:00:00"},
    {"dispatch_after": "9999-12-31 00:00:00"},
    {"dispatch_after": "2026-02-29 00:00:00"},
    {"dispatch_after": "2026-01-01 24:30:00"},
]


def test_the_database_refuses_a_row_that_makes_no_sense(engine: Engine) -> None:
    accepted = []
    for columns in BAD_ROWS:
        try:
            insert(engine, "bad", **columns)
        except DATABASE_ERRORS:
            continue
        accepted.append(columns)
    assert accepted == []
    insert(engine, "good")
    engine.settle()
    assert engine.state("good") == "Completed"
    assert len(engine.app.steps()) == 1


@pytest.mark.parametrize("moment", ["0001-01-02 00:00:00", "2024-02-29 23:59:59.9999994", "9999-12-30 23:59:59.999999"])
def test_a_row_may_wait_for_any_moment_that_python_can_hold(engine: Engine, moment: str) -> None:
    insert(engine, "any", dispatch_after=moment + ("" if engine.app.database.dialect == "sqlite" else "+00"))
    (step,) = engine.app.steps()
    assert step.dispatch_after == datetime.fromisoformat(f"{moment}+00:00")


@pytest.mark.slow
def test_a_row_is_adopted_once_also_by_many_dispatchers(shared_database_url: str, clock: ManualClock) -> None:
    with other_app(shared_database_url, clock) as app:
        engine = Engine(app, clock)
        block = str(uuid4())
        for n in range(30):
            parent = insert(engine, f"parent{n}", child_block_uuid=str(uuid4()))
            insert(engine, f"child{n}", parent_step_id=parent.id)
            insert(engine, f"shared{n}", block_uuid=block)
        in_processes(dispatch, [(shared_database_url, clock.now())] * 3)
        for n in range(30):
            parent_step, child = engine[f"parent{n}"], engine[f"child{n}"]
            assert (child.group, child.workflow_id) == (parent_step.group, parent_step.workflow_id)
        assert len({engine[f"shared{n}"].group for n in range(30)}) == 1
        engine.settle()
        assert set(engine.states().values()) == {"Completed"}
        assert app.check_invariants() == []
        assert app.sweep() == []


def dispatch(url: str, now: datetime) -> None:
    with other_app(url, ManualClock(now)) as app:
        app.dispatcher().run_until_quiet()


def test_the_documented_update_cancels_a_step(engine: Engine) -> None:
    engine.plant("parent(child)")
    with plain_connection(engine.app) as connection:
        connection.execute(
            f"""UPDATE steps SET state = 'Cancelled', actor = 'operator:ann', reason = 'operator: by hand',
                updated_at = '2100-01-01 00:00:05' WHERE id = {engine.refs["parent"].id} AND state = 'Pending'"""
        )
        connection.commit()
    engine.clock.advance(5)
    engine.settle()
    assert engine.states() == {"parent": "Cancelled", "child": "Cancelled"}
    last = engine.history("parent")[-1]
    assert (last.actor, last.reason, last.at) == ("operator:ann", "operator: by hand", engine.clock.now())
