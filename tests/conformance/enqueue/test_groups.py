"""Groups are assigned in rotation, evenly whoever creates the steps, and what belongs together stays in one."""

from __future__ import annotations

import socket
import sqlite3
from collections import Counter
from contextlib import closing
from uuid import uuid4

import psycopg
import pytest

from stepwell import InvalidStep, NewStep
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine, in_processes, other_app

ROTATION = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def groups_of_all(engine: Engine) -> list[str]:
    return [row["group"] for row in engine.sql('SELECT "group" FROM steps ORDER BY id')]


def test_there_are_ten_groups_in_a_known_order(engine: Engine) -> None:
    groups = engine.app.groups()
    assert [group.group for group in groups] == ROTATION
    assert all(group.lock_owner is None for group in groups)


def test_ten_roots_in_a_row_take_all_ten_groups(engine: Engine) -> None:
    for n in range(20):
        engine.add(f"s{n}")
    assert groups_of_all(engine) == ROTATION * 2


def test_a_hundred_roots_one_by_one_spread_ten_each(engine: Engine) -> None:
    for n in range(100):
        engine.add(f"s{n}")
    assert Counter(groups_of_all(engine)) == dict.fromkeys(ROTATION, 10)


def test_a_hundred_roots_in_one_call_spread_ten_each(engine: Engine) -> None:
    engine.app.enqueue_many(NewStep(action="behave") for _ in range(100))
    assert groups_of_all(engine) == ROTATION * 10


def test_calls_of_every_size_share_one_rotation(engine: Engine) -> None:
    for size in (1, 3, 7, 13, 1, 25):
        engine.app.enqueue_many(NewStep(action="behave") for _ in range(size))
    assert groups_of_all(engine) == ROTATION * 5


def test_a_tree_takes_one_place_in_the_rotation(engine: Engine) -> None:
    engine.plant("a(b, c(d)), e, f<e")
    engine.plant("g > h")
    of = {label: engine[label].group for label in engine.refs}
    assert of["a"] == of["b"] == of["c"] == of["d"]
    assert of["e"] == of["f"]
    assert of["g"] == of["h"]
    assert {of["a"], of["e"], of["g"]} == set(ROTATION[:3])


def in_a_transaction(url: str, count: int, *, commit: bool = True) -> None:
    """Create roots one by one in one transaction on the caller's own connection."""
    with other_app(url) as app:
        if url.startswith("sqlite"):
            connection: sqlite3.Connection | psycopg.Connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        else:
            connection = psycopg.connect(url)
        with closing(connection):
            for _ in range(count):
                app.enqueue("behave", connection=connection)
            if commit:
                connection.commit()
            else:
                connection.rollback()


def one_by_one(url: str, count: int) -> None:
    with other_app(url) as app:
        for _ in range(count):
            app.enqueue("behave")


def many_at_once(url: str, count: int) -> None:
    with other_app(url) as app:
        app.enqueue_many(NewStep(action="behave") for _ in range(count))


def some_way(way: str, url: str, count: int) -> None:
    {"transaction": in_a_transaction, "single": one_by_one, "bulk": many_at_once}[way](url, count)


def count_groups(url: str) -> Counter[str]:
    with other_app(url) as app:
        return Counter(groups_of_all(Engine(app, ManualClock())))


def test_roots_in_the_caller_s_transaction_spread_evenly(shared_database_url: str) -> None:
    in_a_transaction(shared_database_url, 100)
    assert count_groups(shared_database_url) == dict.fromkeys(ROTATION, 10)


@pytest.mark.slow
def test_roots_of_many_processes_at_once_spread_evenly(shared_database_url: str) -> None:
    one_by_one(shared_database_url, 0)  # the schema
    ways = ["transaction", "single", "bulk", "single"]
    in_processes(some_way, [(way, shared_database_url, 25) for way in ways])
    assert count_groups(shared_database_url) == dict.fromkeys(ROTATION, 10)


def test_a_transaction_that_is_rolled_back_does_not_unbalance_the_rest(shared_database_url: str) -> None:
    for _ in range(3):
        in_a_transaction(shared_database_url, 4, commit=False)
        one_by_one(shared_database_url, 10)
    assert count_groups(shared_database_url) == dict.fromkeys(ROTATION, 3)


def test_no_enqueue_waits_for_the_lock_of_another_on_postgres(postgres_url: str) -> None:
    """A transaction that has created roots stays open; nobody who creates others needs anything that it holds."""
    with other_app(postgres_url) as app, psycopg.connect(postgres_url) as slow, psycopg.connect(postgres_url) as quick:
        quick.execute("SET lock_timeout = '100ms'")
        for _ in range(10):
            app.enqueue("behave", connection=slow)
        app.enqueue("behave", connection=slow, group="a new one")
        for _ in range(10):
            app.enqueue("behave", connection=quick)
        app.enqueue_many([NewStep(action="behave") for _ in range(30)], connection=quick)
        quick.commit()
        slow.commit()
    counts = count_groups(postgres_url)
    assert counts.pop("a new one") == 1
    assert counts == dict.fromkeys(ROTATION, 5)


# What is inherited ------------------------------------------------------------------------------------------------


def test_five_levels_inherit_group_workflow_and_high_priority(engine: Engine) -> None:
    engine.plant("filler, other")
    engine.plant("l0(l1(l2(l3(l4(l5)))))", priority="high")
    engine.add("m1", parent=engine.refs["l0"])
    engine.add("m2", parent=engine.refs["m1"])
    engine.add("m3", parent=engine.refs["m2"])
    top = engine["l0"]
    for label in ("l1", "l2", "l3", "l4", "l5", "m1", "m2", "m3"):
        step = engine[label]
        inherited = (step.group, step.workflow_id, step.priority, step.queue)
        assert inherited == (top.group, top.uuid, "high", "priority"), label


def test_a_child_that_is_urgent_makes_only_those_below_it_urgent(engine: Engine) -> None:
    engine.plant("root(a)")
    engine.add("urgent", parent=engine.refs["root"], priority="high")
    engine.add("below", parent=engine.refs["urgent"])
    priorities = {label: engine[label].priority for label in engine.refs}
    assert priorities == {"root": "default", "a": "default", "urgent": "high", "below": "high"}


def test_later_steps_of_a_root_block_inherit(engine: Engine) -> None:
    block = str(uuid4())
    engine.add("filler")
    engine.add("first", block=block, priority="high")
    engine.add("second", block=block, index=2)
    engine.plant("third, fourth", block=block)
    first = engine["first"]
    for label in ("second", "third", "fourth"):
        step = engine[label]
        assert (step.group, step.workflow_id) == (first.group, first.workflow_id)
        assert (step.priority, step.queue) == ("high", "priority")
        assert step.parent_step_id is None


def test_a_step_can_join_the_block_that_a_root_has_to_itself(engine: Engine) -> None:
    engine.add("filler")
    engine.add("root")
    engine.add("after", block=engine["root"].block_uuid, index=2)
    assert engine["after"].group == engine["root"].group
    assert engine["after"].workflow_id == engine["root"].workflow_id
    engine.settle()
    assert engine.history("root")[-1].id < engine.history("after")[1].id


def test_what_depends_on_a_step_joins_its_workflow_and_group(engine: Engine) -> None:
    engine.plant("filler, first")
    engine.add("then", depends_on=[engine.refs["first"]])
    assert (engine["then"].group, engine["then"].workflow_id) == (engine["first"].group, engine["first"].workflow_id)


def test_steps_of_a_named_workflow_share_one_group(engine: Engine) -> None:
    workflow = str(uuid4())
    engine.plant("a, b", workflow=workflow)
    engine.add("c", workflow=workflow.upper())
    assert {engine[label].workflow_id for label in "abc"} == {workflow}
    assert len({engine[label].group for label in "abc"}) == 1
    engine.add("d", workflow=engine.add("root").uuid)
    assert engine["d"].group == engine["root"].group


# An explicit group -------------------------------------------------------------------------------------------------


def test_an_explicit_group_is_kept_and_takes_no_place_in_the_rotation(engine: Engine) -> None:
    for n in range(5):
        engine.add(f"x{n}", group="theta")
    engine.plant("root(a)", group="theta")
    engine.add("next")
    assert {engine[label].group for label in engine.refs} == {"theta", "alpha"}
    assert engine["next"].group == "alpha"


def test_a_new_group_gets_a_row_outside_the_rotation_and_is_dispatched(engine: Engine) -> None:
    engine.plant("root(a > b)", group="mine")
    (row,) = [group for group in engine.app.groups() if group.group == "mine"]
    assert row.rotation is None
    engine.app.enqueue_many(NewStep(action="behave") for _ in range(10))
    assert groups_of_all(engine)[3:] == ROTATION
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}
    engine.add("again", group="mine")
    assert len(engine.app.groups()) == 11


def test_a_group_that_contradicts_what_the_step_belongs_to_is_refused(engine: Engine) -> None:
    engine.plant("root(a)", group="beta")
    before = engine.snapshot()
    for where in (
        {"parent": engine.refs["root"]},
        {"depends_on": [engine.refs["root"]]},
        {"block": engine["root"].block_uuid},
        {"workflow": engine["root"].workflow_id},
    ):
        with pytest.raises(InvalidStep, match="beta, gamma"):
            engine.add("odd", group="gamma", **where)
    parent = NewStep(action="behave", group="beta")
    child = NewStep(action="behave", group="gamma", parent=parent)
    with pytest.raises(InvalidStep, match="beta, gamma"):
        engine.app.enqueue_many([parent, child])
    engine.add("fine", group="beta", parent=engine.refs["root"])
    assert len(engine.snapshot()["steps"]) == len(before["steps"]) + 1


def test_a_refused_step_leaves_no_group_behind(engine: Engine) -> None:
    with pytest.raises(InvalidStep):
        engine.add("odd", group="never", parent=999_999)
    assert len(engine.app.groups()) == 10


# Queues ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "priority", "queue"),
    [
        (None, "default", "default"),
        (None, "high", "priority"),
        ("candles", "default", "candles"),
        ("candles", "high", "candles"),
        ("indicators", "default", "indicators"),
        ("priority", "default", "priority"),
        ("default", "high", "default"),
        ("no such queue", "default", "default"),
        ("no such queue", "high", "priority"),
        ("Candles", "default", "default"),
    ],
)
def test_a_step_is_routed_to_its_queue(engine: Engine, asked: str | None, priority: str, queue: str) -> None:
    engine.add("a", queue=asked, priority=priority)
    assert (engine["a"].queue, engine["a"].priority) == (queue, priority)


def test_the_name_of_every_known_host_is_a_queue(engine: Engine) -> None:
    host = socket.gethostname().lower()
    engine.add("early", queue=host)
    with engine.worker():
        engine.add("late", queue=host)
    engine.change(
        """INSERT INTO steps_workers (id, hostname, pid, slots, started_at, heartbeat_at, alive_until)
           VALUES ('w', 'BigBox', 1, 1, :now, :now, :now)""",
        now=engine.clock.now(),
    )
    engine.add("elsewhere", queue="bigbox")
    assert [engine[label].queue for label in ("early", "late", "elsewhere")] == ["default", host, "bigbox"]
    engine.settle()
    assert engine.states("early", "late") == {"early": "Completed", "late": "Completed"}


def test_a_queue_that_a_worker_brought_is_valid(engine: Engine) -> None:
    runner = engine.app.inline_runner(queues=["mail"])
    runner.close()
    engine.add("letter", queue="mail")
    assert engine["letter"].queue == "mail"
