"""DAG edges: inside one workflow, without circles, and the rules by which a step follows those it depends on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any
from uuid import uuid4

import pytest

from stepwell import InvalidStep, NewStep
from tests.conformance.support.engine import Engine


def edges(engine: Engine) -> set[tuple[str, str]]:
    label = {ref.id: name for name, ref in engine.refs.items()}
    rows = engine.sql("SELECT step_id, depends_on_id FROM step_dependencies")
    return {(label[row["step_id"]], label[row["depends_on_id"]]) for row in rows}


def test_dependencies_run_before_what_depends_on_them(engine: Engine) -> None:
    engine.plant("a, b, c<a+b, d<c, e<a")
    assert edges(engine) == {("c", "a"), ("c", "b"), ("d", "c"), ("e", "a")}
    engine.settle(slots=1)
    assert set(engine.states().values()) == {"Completed"}
    ran = {label: engine.history(label)[2].id for label in engine.refs}
    ended = {label: engine.history(label)[-1].id for label in engine.refs}
    assert all(ended[before] < ran[after] for after, before in edges(engine))


def test_edges_may_lead_to_steps_that_exist_by_any_name(engine: Engine) -> None:
    engine.plant("a, b<a")
    engine.add("c", depends_on=[engine.refs["a"], engine.refs["b"].id])
    engine.add("d", depends_on=[engine.refs["c"].uuid, engine["a"]])
    engine.add("e", depends_on=(engine.refs["d"], engine.refs["d"].id, engine.refs["d"].uuid))
    assert edges(engine) == {("b", "a"), ("c", "a"), ("c", "b"), ("d", "c"), ("d", "a"), ("e", "d")}
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


def test_a_dependency_that_has_concluded_is_met_at_once(engine: Engine) -> None:
    engine.plant("a, b:skip")
    engine.settle()
    engine.add("c", depends_on=[engine.refs["a"]])
    engine.add("d", depends_on=[engine.refs["b"]])
    engine.settle()
    assert engine.states("c", "d") == {"c": "Completed", "d": "Completed"}


@pytest.mark.parametrize("outcome", ["fail", "stop"])
def test_a_dependency_that_has_failed_is_a_dependency_that_cannot_be_met(engine: Engine, outcome: str) -> None:
    engine.plant(f"a:{outcome}")
    engine.settle()
    engine.add("b", depends_on=[engine.refs["a"]])
    engine.settle()
    assert (engine.state("b"), engine["b"].reason) == ("NotRunnable", "predecessor_failed")


def test_edges_across_blocks_of_one_tree(engine: Engine) -> None:
    engine.plant("root(left(l1, l2), right(r1<l2 > r2))")
    engine.settle(slots=1)
    assert set(engine.states().values()) == {"Completed"}
    assert engine.history("l2")[-1].id < engine.history("r1")[2].id


# Trigger rules ------------------------------------------------------------------------------------------------------

ENDS = {"ok": "Completed", "skip": "Skipped", "fail": "Failed", "stop": "Stopped"}
CONCLUDED = {"ok", "skip"}
RULES: dict[str, Callable[[tuple[str, ...]], bool]] = {
    "all_concluded": lambda ends: set(ends) <= CONCLUDED,
    "all_ended": lambda ends: True,
    "any_concluded": lambda ends: bool(set(ends) & CONCLUDED),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_trigger_rule_decides_over_every_pair_of_outcomes(engine: Engine, rule: str) -> None:
    for ends in product(ENDS, repeat=2):
        one, other = "_".join(ends) + "_1", "_".join(ends) + "_2"
        planted = engine.plant(f"{one}:{ends[0]}, {other}:{ends[1]}, {one}_tie<{one}+{other}")
        assert planted
        engine.add("_".join(ends), depends_on=[planted[one], planted[other]], trigger_rule=rule)
    engine.settle(slots=100)
    for ends in product(ENDS, repeat=2):
        expected = "Completed" if RULES[rule](ends) else "NotRunnable"
        assert engine.state("_".join(ends)) == expected, ends


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ended", ["Cancelled", "NotRunnable"])
def test_a_trigger_rule_over_what_was_cancelled_or_could_not_run(engine: Engine, rule: str, ended: str) -> None:
    engine.plant("good, bad:fail, behind<bad, gone, knot<good+behind+gone")
    engine.app.cancel(engine.refs["gone"], who="ann")
    other = {"Cancelled": "gone", "NotRunnable": "behind"}[ended]
    engine.add("both", depends_on=[engine.refs["good"], engine.refs[other]], trigger_rule=rule)
    engine.add("only", depends_on=[engine.refs[other]], trigger_rule=rule)
    engine.settle()
    assert engine.state(other) == ended
    assert engine.state("both") == ("NotRunnable" if rule == "all_concluded" else "Completed")
    assert engine.state("only") == ("Completed" if rule == "all_ended" else "NotRunnable")


def test_any_concluded_starts_with_the_first_and_all_ended_waits_for_the_last(engine: Engine) -> None:
    engine.plant("quick, slow:throttle/throttle/ok, knot<quick+slow")
    both = [engine.refs["quick"], engine.refs["slow"]]
    engine.add("first", depends_on=both, trigger_rule="any_concluded")
    engine.add("last", depends_on=both, trigger_rule="all_ended")
    engine.app.run_until_idle()
    assert engine.states("slow", "first", "last") == {"slow": "Pending", "first": "Completed", "last": "Pending"}
    engine.settle()
    assert engine.state("last") == "Completed"


def test_index_order_counts_beside_a_trigger_rule(engine: Engine) -> None:
    engine.plant("root(a:fail > b)")
    engine.add("c", parent=engine.refs["root"], index=2, depends_on=[engine.refs["a"]], trigger_rule="all_ended")
    engine.settle()
    assert engine.state("c") == "NotRunnable"


# What is refused ----------------------------------------------------------------------------------------------------


def test_an_edge_that_leaves_the_workflow_is_refused(engine: Engine) -> None:
    engine.plant("a(x), b")
    before = engine.snapshot()
    a, b, x = (engine.refs[label] for label in "abx")
    for where in (
        {"depends_on": [a, b]},
        {"parent": a, "depends_on": [b]},
        {"block": engine["b"].block_uuid, "depends_on": [x]},
        {"workflow": str(uuid4()), "depends_on": [a]},
        {"workflow": b.uuid, "parent": a},
    ):
        with pytest.raises(InvalidStep, match="inside one workflow"):
            engine.add("odd", **where)
    assert engine.snapshot() == before


def test_a_handler_neither_has_nor_is_a_dependency(engine: Engine) -> None:
    engine.plant("root(a, !h)")
    before = engine.snapshot()
    with pytest.raises(InvalidStep, match="DAG edges"):
        engine.add("odd", depends_on=[engine.refs["h"]])
    with pytest.raises(InvalidStep, match="DAG edges"):
        engine.add("odd", type="resolve-exception", parent=engine.refs["root"], depends_on=[engine.refs["a"]])
    assert engine.snapshot() == before


def refuse(engine: Engine, drafts: list[NewStep], *names: str) -> None:
    """The call is refused, the message names these steps, and nothing is written."""
    before = engine.snapshot()
    with pytest.raises(InvalidStep) as refusal:
        engine.app.enqueue_many(drafts)
    assert all(name in str(refusal.value) for name in names), refusal.value
    assert "wait for each other forever" in str(refusal.value) or "depends on itself" in str(refusal.value)
    assert engine.snapshot() == before


def step(label: str, depends_on: Sequence[Any] = (), **settings: Any) -> NewStep:
    return NewStep(action="behave", label=label, depends_on=list(depends_on), **settings)


def tied(draft: NewStep, *dependencies: NewStep) -> NewStep:
    """Give a draft dependencies that were made after it: how a caller closes a circle."""
    assert isinstance(draft.depends_on, list)
    draft.depends_on[:] = dependencies
    return draft


def test_a_circle_of_edges_is_refused(engine: Engine) -> None:
    one = step("one")
    two = step("two", depends_on=[one])
    three = step("three", depends_on=[two])
    refuse(engine, [tied(one, three), two, three], "one", "two", "three")
    refuse(engine, [tied(one, one)], "one")


def test_an_edge_against_the_index_order_is_refused(engine: Engine) -> None:
    block = str(uuid4())
    late = step("late", block=block, index=3)
    refuse(engine, [step("early", block=block, index=1, depends_on=[late]), late], "early", "late")
    refuse(engine, [step("early", block=block, depends_on=[late]), step("mid", block=block, index=2), late], "late")


def test_an_edge_from_a_child_to_an_ancestor_is_refused(engine: Engine) -> None:
    root = step("root")
    child = step("child", parent=root)
    refuse(engine, [root, step("loop", parent=root, depends_on=[root])], "root", "loop")
    refuse(engine, [root, child, step("deep", parent=child, depends_on=[root])], "root", "deep")


def test_an_edge_from_an_ancestor_to_a_descendant_is_refused(engine: Engine) -> None:
    root = step("root")
    child = step("child", parent=root)
    deep = step("deep", parent=child)
    refuse(engine, [tied(root, deep), child, deep], "root", "deep")


def test_a_circle_over_all_three_kinds_is_refused(engine: Engine) -> None:
    """`first` (index 1) waits for its child, which depends on `friend`, which depends on `second` (index 2)."""
    block = str(uuid4())
    first = step("first", block=block, index=1)
    second = step("second", block=block, index=2)
    friend = step("friend", depends_on=[second])
    child = step("child", parent=first, depends_on=[friend])
    refuse(engine, [first, second, friend, child], "first", "second", "friend", "child")


def test_circles_with_steps_that_exist_are_refused(engine: Engine) -> None:
    engine.plant("root(a > b(deep))")
    refs = engine.refs
    root, a, b = refs["root"], refs["a"], refs["b"]
    refuse(engine, [step("child", parent=root, depends_on=[root])], "child", f"root (step {root.id})")
    refuse(engine, [step("front", parent=root, depends_on=[b])], "front", f"b (step {b.id})")
    refuse(engine, [step("under", parent=a, depends_on=[b])], "under", f"a (step {a.id})", f"b (step {b.id})")
    refuse(engine, [step("deeper", parent=refs["deep"], depends_on=[root])], "deeper", "root")
    middle = step("middle", depends_on=[b])
    refuse(engine, [middle, step("front", parent=root, depends_on=[middle])], "front", "middle", "b")


def test_a_circle_over_edges_that_exist_is_refused(engine: Engine) -> None:
    engine.plant("parent(kid), after<parent")
    loop = step("loop", parent=engine.refs["parent"], depends_on=[engine.refs["after"]])
    refuse(engine, [loop], "loop", "parent", "after")


def test_a_circle_with_a_step_that_joins_a_root_block_is_refused(engine: Engine) -> None:
    engine.plant("one > two, three<two")
    block = engine["one"].block_uuid
    refuse(engine, [step("loop", block=block, index=1, depends_on=[engine.refs["three"]])], "loop", "two", "three")


def test_what_looks_like_a_circle_and_is_none_is_taken(engine: Engine) -> None:
    engine.plant("root(a, b<a > c<a+b)")
    engine.add("d", parent=engine.refs["root"], index=9, depends_on=[engine.refs["a"]])
    engine.add("outside", depends_on=[engine.refs["root"]])
    engine.add("in front of nothing", parent=engine.refs["c"], depends_on=[engine.refs["a"]])
    engine.plant("p(x, !h(y))")
    engine.settle()
    done = set(engine.refs) - {"h", "y"}
    assert set(engine.states(*done).values()) == {"Completed"}


def test_a_circle_through_what_has_concluded_is_no_circle(engine: Engine) -> None:
    engine.plant("first > second:throttle/ok")
    engine.app.run_until_idle()
    assert engine.state("first") == "Completed"
    engine.add("third", block=engine["first"].block_uuid, index=3, depends_on=[engine.refs["first"]])
    engine.settle()
    assert engine.state("third") == "Completed"
