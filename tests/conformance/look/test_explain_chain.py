"""`explain` follows what a step waits for down to the root causes, says when they change, and stays quick and short."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from stepwell import NewStep, Stepwell
from stepwell.look.explain import SOURCES
from stepwell.look.explain import explain as explain_with
from stepwell.look.explain.facts import Facts
from stepwell.look.explain.found import Found, cause
from stepwell.store.engine.explaining import StepFacts
from stepwell.testing import ManualClock
from tests.conformance.support.engine import Engine
from tests.conformance.support.ticks import GROUP, run, run_level

MANY = 10_000
WORKFLOW = "00000000-0000-4000-8000-000000000000"


def in_backoff(engine: Engine) -> datetime:
    """`after` waits for `root`, which waits for `mid`, which waits for `leaf`, whose retry is delayed."""
    engine.plant("root(mid(leaf:raise/ok)) > after", group=GROUP)
    with engine.worker() as runner:
        for label in ("root", "mid", "leaf"):
            run_level(engine, runner, label)
        engine.tick()
    due = engine["leaf"].dispatch_after
    assert due is not None
    return due


def test_a_step_names_all_steps_behind_it_and_when_the_last_of_them_can_run(engine: Engine) -> None:
    due = in_backoff(engine)
    with engine.worker():
        explanation = engine.app.explain(engine.refs["after"])
        assert [step.name for step in explanation.behind] == ["root", "mid", "leaf"]
        assert [[each.steps for each in step.obstacles] for step in explanation.behind] == [
            [(engine.refs["mid"].id,)],
            [(engine.refs["leaf"].id,)],
            [()],
        ]
        (root,) = explanation.roots
        assert (root.condition, root.steps, root.changes_at) == ("dispatch_after", (engine.refs["leaf"].id,), due)
        assert explanation.expected_at == due
        assert f"its retry is delayed until {due:%Y-%m-%d %H:%M:%S.%f} UTC" in explanation.summary
        document: dict[str, Any] = explanation.as_dict()
        assert (document["expected_at"], document["roots"][0]["changes_at"]) == (due, due)
        assert [step["name"] for step in document["behind"]] == ["root", "mid", "leaf"]
        for label in ("root", "mid", "leaf"):
            assert engine.app.explain(engine.refs[label]).expected_at == due


def test_the_moment_is_the_latest_of_all_conditions_and_the_earliest_of_alternatives(engine: Engine) -> None:
    now = engine.clock.now()
    early = engine.add("early", workflow=WORKFLOW, delay=60)
    late = engine.add("late", workflow=WORKFLOW, delay=120)
    for rule in ("all_concluded", "all_ended", "any_concluded"):
        engine.add(rule, workflow=WORKFLOW, depends_on=[early, late], trigger_rule=rule)
    engine.add("itself", workflow=WORKFLOW, depends_on=[early], delay=300)
    free = engine.add("free", workflow=WORKFLOW)
    engine.add("unknown", workflow=WORKFLOW, depends_on=[early, free], trigger_rule="any_concluded")
    with engine.worker():
        moments = {label: engine.app.explain(ref).expected_at for label, ref in engine.refs.items()}
        assert moments == {
            "early": now + timedelta(seconds=60), "late": now + timedelta(seconds=120),
            "all_concluded": now + timedelta(seconds=120), "all_ended": now + timedelta(seconds=120),
            "any_concluded": now + timedelta(seconds=60), "itself": now + timedelta(seconds=300),
            "free": None, "unknown": None,
        }  # fmt: skip


def test_a_condition_of_a_step_in_the_middle_is_a_root_cause_too(engine: Engine) -> None:
    engine.plant("first", group=GROUP, block=WORKFLOW)
    engine.add("second", block=WORKFLOW, index=2, queue="candles")
    engine.add("third", block=WORKFLOW, index=3, delay=60)
    engine.add("last", block=WORKFLOW, index=4)
    runner = engine.app.inline_runner(queues=["default"])
    (first,) = engine.claim(runner, "first")
    roots = {(root.condition, root.steps) for root in engine.app.explain(engine.refs["last"]).roots}
    assert roots == {
        ("running", (engine.refs["first"].id,)),
        ("workers", (engine.refs["second"].id,)),
        ("dispatch_after", (engine.refs["third"].id,)),
    }
    run(runner, first)
    runner.close()


def test_one_cause_of_many_steps_is_one_root_cause(engine: Engine) -> None:
    engine.plant("root(a, b, c)", group=GROUP)
    with engine.worker() as runner:
        run_level(engine, runner, "root")
        engine.app.breaker.pause("alice")
        engine.tick()
        (root,) = engine.app.explain(engine.refs["root"]).roots
        assert (root.condition, root.steps) == ("breaker", tuple(engine.refs[label].id for label in "abc"))
        assert root.advice == ("stepwell resume",)


def test_a_feature_contributes_obstacles_without_editing_the_others(engine: Engine) -> None:
    engine.plant("gate, behind<gate", group=GROUP)

    def gates(facts: Facts, step: StepFacts) -> Iterator[Found]:
        if step.name == "gate":
            yield cause("gate", "waits for an answer", advice=[f"stepwell answer {step.id}"])

    with engine.worker():
        explanation = explain_with(engine.app.database, engine["behind"], [*SOURCES, gates])
        (root,) = explanation.roots
        assert (root.condition, root.steps) == ("gate", (engine.refs["gate"].id,))


# Cycles -----------------------------------------------------------------------------------------------------


def test_steps_that_wait_for_each_other_are_reported_as_a_cycle(lawless_app: Stepwell, clock: ManualClock) -> None:
    engine = Engine(lawless_app, clock)
    engine.plant("a, b<a, c<b, after<c", group=GROUP)
    engine.change(
        "INSERT INTO step_dependencies (step_id, depends_on_id) VALUES (:a, :c)",
        a=engine.refs["a"].id,
        c=engine.refs["c"].id,
    )
    engine.change("UPDATE steps SET dependencies = 1 WHERE id = :a", a=engine.refs["a"].id)
    with engine.worker():
        for label in ("a", "after"):
            (root,) = lawless_app.explain(engine.refs[label]).roots
            assert root.condition == "cycle"
            assert all(f"({name}, Pending)" in root.message for name in "abc")
            assert "after" not in root.message
        engine.app.cancel(int(root.advice[0].split()[-1]), who="tester")


def test_parents_in_a_circle_do_not_hang_it(lawless_app: Stepwell, clock: ManualClock) -> None:
    engine = Engine(lawless_app, clock)
    engine.plant("a(b(c))", group=GROUP)
    parent = "UPDATE steps SET parent_step_id = :above, block_uuid = :block WHERE id = :id"
    block = engine.sql("SELECT child_block_uuid FROM steps WHERE id = :id", id=engine.refs["c"].id)
    assert block[0]["child_block_uuid"] is None
    engine.change("UPDATE steps SET child_block_uuid = :block WHERE id = :id", block=WORKFLOW, id=engine.refs["c"].id)
    engine.change(parent, above=engine.refs["c"].id, block=WORKFLOW, id=engine.refs["a"].id)
    with engine.worker():
        assert [root.condition for root in lawless_app.explain(engine.refs["b"]).roots] == ["cycle"]
        engine.change("UPDATE steps SET state = 'Failed', reason = 'children_failed'")
        assert lawless_app.explain(engine.refs["b"]).roots != []


# Long chains and wide fans ------------------------------------------------------------------------------------


@contextmanager
def counted_statements(app: Stepwell) -> Iterator[list[int]]:
    """How many statements the last transaction ran: `explain` is one.

    A server that is kept busy by others may end it while it computes. It is repeated then, as another transaction.
    """
    count = [0]
    last: list[Any] = [None]
    kind: Any = type(app.database.read(lambda tx: tx))
    query, change = kind.query, kind.change

    def counting(verb: Callable[..., Any]) -> Callable[..., Any]:
        def run_one(tx: Any, *arguments: Any) -> Any:
            if tx is not last[0]:
                count[0], last[0] = 0, tx
            count[0] += 1
            return verb(tx, *arguments)

        return run_one

    kind.query, kind.change = counting(query), counting(change)
    try:
        yield count
    finally:
        kind.query, kind.change = query, change


def _chain_of_edges() -> list[NewStep]:
    drafts = [NewStep(action="behave", delay=60)]
    for _ in range(MANY - 1):
        drafts.append(NewStep(action="behave", depends_on=[drafts[-1]]))
    return drafts


def _chain_of_indexes() -> list[NewStep]:
    return [NewStep(action="behave", block=WORKFLOW, index=place, delay=60 if place == 1 else None)
            for place in range(1, MANY + 1)]  # fmt: skip


def _chain_of_parents() -> list[NewStep]:
    drafts = [NewStep(action="behave", delay=60)]
    for _ in range(MANY - 1):
        drafts.append(NewStep(action="behave", parent=drafts[-1]))
    return drafts


@pytest.mark.slow
@pytest.mark.parametrize("shape", [_chain_of_edges, _chain_of_indexes, _chain_of_parents])
def test_the_root_cause_is_found_behind_ten_thousand_steps(engine: Engine, shape: Callable[[], list[NewStep]]) -> None:
    refs = engine.app.enqueue_many(shape())
    with engine.worker(), counted_statements(engine.app) as count:
        explanation = engine.app.explain(refs[-1])
        assert count[0] < 25
    (root,) = explanation.roots
    assert (root.condition, root.steps, root.more) == ("dispatch_after", (refs[0].id,), 0)
    assert explanation.expected_at == engine.clock.now() + timedelta(seconds=60)
    assert len(explanation.behind) + explanation.behind_more == MANY - 1
    assert len(explanation.behind) == 100
    assert explanation.is_complete
    assert len(explanation.summary) < 2_000
    if shape is _chain_of_indexes:
        (obstacle,) = explanation.obstacles
        assert (obstacle.steps, obstacle.more) == (tuple(ref.id for ref in refs[:10]), MANY - 11)
        assert f"... {MANY - 11:,} more" in obstacle.message


@pytest.mark.slow
def test_the_root_cause_is_found_behind_ten_thousand_steps_that_cannot_run(engine: Engine) -> None:
    refs = engine.app.enqueue_many(_chain_of_indexes())
    engine.app.transition_to(refs[0], "Failed", who="tester")  # type: ignore[arg-type]
    with engine.worker(), counted_statements(engine.app) as count:
        engine.tick()
        explanation = engine.app.explain(refs[-1])
        assert count[0] < 25
    assert [(root.steps, root.advice[0]) for root in explanation.roots] == [
        ((refs[0].id,), f"stepwell retry {refs[0].id}")
    ]


@pytest.mark.slow
def test_a_parent_of_ten_thousand_children_names_some_and_counts_the_rest(engine: Engine) -> None:
    parent = NewStep(action="behave", group=GROUP)
    refs = engine.app.enqueue_many([parent, *(NewStep(action="behave", parent=parent, delay=60) for _ in range(MANY))])
    with engine.worker() as runner, counted_statements(engine.app) as count:
        engine.tick()
        run(runner, *runner.claim(1))
        explanation = engine.app.explain(refs[0])
        assert count[0] < 25
        (obstacle,) = explanation.obstacles
        assert (len(obstacle.steps), obstacle.more) == (10, MANY - 10)
        assert f"... {MANY - 10:,} more" in explanation.summary
        assert len(explanation.behind) + explanation.behind_more == MANY
        (root,) = explanation.roots
        assert root.condition == "dispatch_after"
        assert explanation.expected_at == engine.clock.now() + timedelta(seconds=60)
        assert not explanation.is_complete  # only some of the children were examined


@pytest.mark.slow
def test_the_root_cause_is_found_above_and_behind_ten_thousand_cancelled_steps(engine: Engine) -> None:
    refs = engine.app.enqueue_many(_chain_of_parents())
    (after,) = engine.app.enqueue_many([NewStep(action="behave", depends_on=[refs[0]])])
    engine.app.cancel(refs[0], who="tester")
    with engine.worker(), counted_statements(engine.app) as count:
        engine.app.dispatcher().run_until_quiet(max_rounds=100)
        for ref in (after, refs[-1]):
            explanation = engine.app.explain(ref)
            assert count[0] < 25
            assert [(root.steps, root.advice) for root in explanation.roots] == [
                ((refs[0].id,), (f"stepwell retry {refs[0].id}",))
            ]
            assert explanation.is_complete
