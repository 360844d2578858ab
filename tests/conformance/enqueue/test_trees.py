"""Trees: how a child is made, what it inherits, and how children decide their parent."""

from __future__ import annotations

from itertools import combinations_with_replacement
from uuid import uuid4

import pytest

from stepwell import InvalidStep, NewStep, Skip, Step, Stop
from tests.conformance.support.engine import Engine

# How to plant a child that will end in this state: `bad` is a root that fails, `no` will be cancelled by hand.
OUTCOMES = {
    "Completed": "{name}:ok",
    "Skipped": "{name}:skip",
    "Failed": "{name}:fail",
    "Stopped": "{name}:stop",
    "Cancelled": "{name}_no",
    "NotRunnable": "{name}<bad{number}",
}
FAMILIES = [family for size in range(4) for family in combinations_with_replacement(OUTCOMES, size)]


def family_line(number: int, family: tuple[str, ...]) -> str:
    children = [
        OUTCOMES[outcome].format(name=f"c{number}_{place}", number=number) for place, outcome in enumerate(family)
    ]
    root = f"p{number}({', '.join(children)})" if children else f"p{number}"
    return f"bad{number}:fail, {root}" if "NotRunnable" in family else root


def test_every_set_of_child_outcomes_decides_the_parent(engine: Engine) -> None:
    """All sets of up to three outcomes: completed if all concluded, else failed; it never waits for ever."""
    assert len(FAMILIES) == 84
    for number, family in enumerate(FAMILIES):
        engine.plant(family_line(number, family))
    for label, ref in engine.refs.items():
        if label.endswith("_no"):
            engine.app.cancel(ref, who="ann")
    engine.settle(slots=100)
    for number, family in enumerate(FAMILIES):
        parent = engine[f"p{number}"]
        children = engine.app.steps(parent=parent.id, limit=10)
        assert sorted(str(child.state) for child in children) == sorted(family)
        expected = "Completed" if {"Completed", "Skipped"}.issuperset(family) else "Failed"
        assert str(parent.state) == expected, family
        for child in children:
            named = f"step {child.id} {child.label} ({child.state})" in (parent.error_message or "")
            assert named == (str(child.state) not in ("Completed", "Skipped"))


def test_a_failed_parent_names_ten_children_and_counts_the_rest(engine: Engine) -> None:
    engine.plant(f"root({', '.join(f'c{n}:fail' for n in range(13))})")
    engine.settle()
    message = engine["root"].error_message or ""
    assert message.count("(Failed)") == 10
    assert message.endswith("and 3 more")


def test_a_handler_never_decides_the_parent(engine: Engine) -> None:
    engine.plant("calm(a, !h1:fail), rescued(b:fail, !h2), lost(c:fail, !h3:fail), only(!h4)")
    engine.settle()
    assert engine.states() == {
        "calm": "Completed", "a": "Completed", "h1": "NotRunnable",
        "rescued": "Failed", "b": "Failed", "h2": "Completed",
        "lost": "Failed", "c": "Failed", "h3": "Failed",
        "only": "Completed", "h4": "NotRunnable",
    }  # fmt: skip


def test_a_parent_never_completes_before_its_children(engine: Engine) -> None:
    engine.plant("root(a(deep > deeper), b)")
    with engine.worker(slots=1) as runner:
        for _ in range(40):
            engine.tick()
            states = engine.states()
            if states["root"] == "Completed":
                break
            assert not (states["a"] == "Completed" and "Completed" not in states["deeper"])
            runner.round()
    assert set(engine.states().values()) == {"Completed"}
    ends = {label: engine.history(label)[-1].id for label in engine.refs}
    assert ends["deep"] < ends["deeper"] < ends["a"] < ends["root"] > ends["b"]


def test_children_wait_until_their_parent_s_own_code_is_done(engine: Engine) -> None:
    engine.plant("root(a)")
    with engine.worker() as runner:
        engine.claim(runner, "root")
        engine.tick()
        assert engine.states() == {"root": "Running", "a": "Pending"}
        assert engine["root"].own_code_done_at is None


def test_a_deep_tree_comes_to_its_end(engine: Engine) -> None:
    depth = 25
    engine.plant("".join(f"s{n}(" for n in range(depth)) + "leaf" + ")" * depth)
    assert engine.settle() == depth + 1
    assert set(engine.states().values()) == {"Completed"}
    engine.plant("".join(f"t{n}(" for n in range(depth)) + "bad:fail" + ")" * depth)
    engine.settle()
    assert set(engine.states(*(f"t{n}" for n in range(depth))).values()) == {"Failed"}


# How a child is made ----------------------------------------------------------------------------------------------


def assert_child(child: Step, parent: Step) -> None:
    assert child.parent_step_id == parent.id
    assert child.block_uuid == parent.child_block_uuid is not None
    assert (child.group, child.workflow_id) == (parent.group, parent.workflow_id)
    assert parent.has_children


def test_a_parent_id_alone_makes_a_child(engine: Engine) -> None:
    parent = engine.add("parent")
    engine.add("first", parent=parent.id)
    assert_child(engine["first"], engine["parent"])
    engine.add("second", parent=parent)
    engine.add("third", parent=parent.uuid)
    engine.add("fourth", parent=engine["parent"])
    for label in ("first", "second", "third", "fourth"):
        assert_child(engine[label], engine["parent"])
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}


def test_a_block_equal_to_a_child_block_makes_a_child(engine: Engine) -> None:
    block = str(uuid4())
    engine.add("parent", child_block=block)
    engine.add("child", block=block)
    assert_child(engine["child"], engine["parent"])
    engine.add("spelled otherwise", block=block.upper().replace("-", ""))
    assert_child(engine["spelled otherwise"], engine["parent"])


def test_both_ways_in_one_call_and_in_any_order(engine: Engine) -> None:
    block = str(uuid4())
    parent = NewStep(action="behave", child_block=block)
    by_block, by_parent = NewStep(action="behave", block=block), NewStep(action="behave", parent=parent)
    refs = engine.app.enqueue_many([by_parent, by_block, parent])
    for child in refs[:2]:
        assert_child(engine.app.step(child), engine.app.step(refs[2]))


def test_a_child_with_the_uuid_of_its_own_block_is_refused(engine: Engine) -> None:
    """A block that is named after a step is that step's own."""
    block = str(uuid4())
    parent = NewStep(action="behave", child_block=block)
    for child in (
        NewStep(action="behave", block=block, uuid=block),
        NewStep(action="behave", parent=parent, uuid=block),
    ):
        with pytest.raises(InvalidStep, match="has the uuid of its parent's child block"):
            engine.app.enqueue_many([parent, child])
    assert engine.app.steps() == []


def test_a_step_whose_uuid_is_the_name_of_a_block_of_others_is_refused(engine: Engine) -> None:
    root, below = str(uuid4()), str(uuid4())
    engine.add("member", block=root)
    engine.add("parent", child_block=below)
    before = engine.snapshot()
    for late in (
        NewStep(action="behave", uuid=root),
        NewStep(action="behave", uuid=root, block=root, index=2),
        NewStep(action="behave", uuid=below),
        NewStep(action="behave", uuid=below, block=below),
    ):
        with pytest.raises(InvalidStep, match="is the name of an existing block"):
            engine.app.enqueue_many([late])
    with pytest.raises(InvalidStep, match="its own uuid as child_block"):
        engine.add("late", uuid=(own := str(uuid4())), child_block=own, index=2)
    assert engine.snapshot() == before


@pytest.mark.parametrize("named", [True, False])
def test_a_step_and_one_that_joins_its_block_may_be_created_in_one_call(engine: Engine, named: bool) -> None:
    name = str(uuid4())
    first = NewStep(action="behave", label="first", uuid=name, block=name if named else None)
    second = NewStep(action="behave", label="second", block=name, index=2)
    for ref in engine.app.enqueue_many([second, first]):
        engine.refs[str(engine.app.step(ref).label)] = ref
    assert engine["first"].workflow_id == engine["second"].workflow_id
    engine.settle()
    assert engine.history("first")[-1].id < engine.history("second")[2].id
    assert engine.app.sweep() == []


def test_steps_that_join_the_block_of_a_lone_one_wait_for_it_and_are_listed_with_it(engine: Engine) -> None:
    alone, other = engine.add("alone"), engine.add("other")
    second, third = (engine.add(f"at {index}", block=alone.uuid, index=index) for index in (2, 3))
    assert [step.id for step in engine.app.steps(block=alone.uuid)] == [third.id, second.id, alone.id]
    assert [step.id for step in engine.app.steps(block=[alone.uuid, other.uuid], limit=2)] == [third.id, second.id]
    engine.settle()
    assert engine.history("alone")[-1].id < engine.history("at 2")[2].id
    assert engine.history("at 2")[-1].id < engine.history("at 3")[2].id
    assert set(engine.states().values()) == {"Completed"}


def test_a_parent_and_a_block_that_disagree_are_refused(engine: Engine) -> None:
    engine.plant("parent(child), bare, other")
    before = engine.snapshot()
    with pytest.raises(InvalidStep, match="names block"):
        engine.add("odd", parent=engine.refs["parent"], block=str(uuid4()))
    for taken in (engine["parent"].child_block_uuid, engine["other"].block_uuid):
        with pytest.raises(InvalidStep, match="already uses it"):
            engine.add("odd", parent=engine.refs["bare"], block=taken)
    assert engine.snapshot() == before


def test_a_parent_may_be_given_the_block_that_its_first_child_names(engine: Engine) -> None:
    block = str(uuid4())
    engine.add("parent")
    engine.add("child", parent=engine.refs["parent"], block=block)
    assert engine["parent"].child_block_uuid == block
    assert_child(engine["child"], engine["parent"])


def test_two_parents_of_one_block_are_refused(engine: Engine) -> None:
    block = str(uuid4())
    engine.add("first", child_block=block)
    before = engine.snapshot()
    with pytest.raises(InvalidStep, match="child_block"):
        engine.add("second", child_block=block)
    with pytest.raises(InvalidStep, match="child_block"):
        engine.app.enqueue_many([NewStep(action="x", child_block=b) for b in [str(uuid4())] * 2])
    assert engine.snapshot() == before


def test_a_block_that_has_steps_cannot_be_announced_as_a_child_block_afterwards(engine: Engine) -> None:
    """Its steps would be children for the parent, and have none themselves: it would wait for ever."""
    block = str(uuid4())
    engine.add("early", block=block)
    before = engine.snapshot()
    with pytest.raises(InvalidStep, match="child_block"):
        engine.add("late parent", child_block=block)
    assert engine.snapshot() == before


def test_without_parent_and_block_a_step_is_a_root_in_a_block_of_its_own(engine: Engine) -> None:
    engine.plant("a, b")
    for step in (engine["a"], engine["b"]):
        assert step.parent_step_id is None
        assert step.block_uuid == step.uuid == step.workflow_id
        assert step.child_block_uuid is None


def test_an_index_of_nothing_or_zero_means_one(engine: Engine) -> None:
    parent = engine.add("parent")
    for label, index in {"none": None, "zero": 0, "one": 1, "two": 2}.items():
        engine.add(label, parent=parent, index=index)
    assert [engine[label].index for label in ("none", "zero", "one", "two")] == [1, 1, 1, 2]
    engine.plant("x")
    assert engine["x"].index == 1


def test_a_gap_in_the_indexes_does_not_matter(engine: Engine) -> None:
    parent = engine.add("parent")
    for label, index in {"third": 7, "first": 2, "second": 5}.items():
        engine.add(label, parent=parent, index=index)
    engine.settle()
    order = sorted(("first", "second", "third"), key=lambda label: engine.history(label)[-1].id)
    assert order == ["first", "second", "third"]


def test_an_announced_child_block_without_children_does_not_hold_the_parent(engine: Engine) -> None:
    engine.add("parent", child_block=str(uuid4()))
    engine.settle()
    assert engine.path("parent") == ["Pending", "Dispatched", "Running", "Completed"]


def test_a_child_can_join_a_parent_that_waits_for_others(engine: Engine) -> None:
    engine.plant("parent(first)")
    with engine.worker(slots=1) as runner:
        for _ in range(3):
            engine.tick()
            if engine["parent"].own_code_done_at is None:
                runner.round()
        assert engine.state("parent") == "Running"
        engine.add("late", parent=engine.refs["parent"])
    engine.settle()
    assert set(engine.states().values()) == {"Completed"}
    assert engine.history("late")[-1].id < engine.history("parent")[-1].id


@pytest.mark.parametrize("outcome", ["ok", "fail", "stop", "skip"])
def test_a_child_of_a_parent_that_has_ended_is_refused(engine: Engine, outcome: str) -> None:
    block = str(uuid4())
    engine.add("parent", outcome, child_block=block)
    engine.settle()
    before = engine.snapshot()
    for where in ({"parent": engine.refs["parent"]}, {"block": block}):
        with pytest.raises(InvalidStep, match=rf"step {engine.refs['parent'].id}, which has ended"):
            engine.add("child", **where)
    assert engine.snapshot() == before


def test_a_child_of_a_cancelled_or_not_runnable_parent_is_refused(engine: Engine) -> None:
    engine.plant("cancelled, bad:fail > behind")
    engine.app.cancel(engine.refs["cancelled"], who="ann")
    engine.settle()
    before = engine.snapshot()
    for label in ("cancelled", "behind"):
        with pytest.raises(InvalidStep, match="which has ended"):
            engine.add("child", parent=engine.refs[label])
    assert engine.snapshot() == before


def test_a_sleeping_handler_may_get_children_that_sleep_with_it(engine: Engine) -> None:
    engine.plant("root(a:raise/raise/fail, !h)")
    engine.add("part", parent=engine.refs["h"])
    engine.tick()
    assert engine["part"].reason == "parent_not_runnable"
    engine.settle()
    assert engine.states() == {"root": "Failed", "a": "Failed", "h": "Completed", "part": "Completed"}


@pytest.mark.parametrize("unknown", [0, -1, 999_999, 2**63, 2**70, "00000000-0000-0000-0000-000000000000"], ids=repr)
def test_an_unknown_parent_is_refused(engine: Engine, unknown: int | str) -> None:
    before = engine.snapshot()
    with pytest.raises(InvalidStep, match=f"parent that does not exist: {unknown}"):
        engine.add("child", parent=unknown)
    with pytest.raises(InvalidStep, match=f"dependency that does not exist: {unknown}"):
        engine.add("child", depends_on=[unknown])
    assert engine.snapshot() == before


def test_a_parent_from_another_call_that_was_never_made_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidStep, match="not part of this call"):
        engine.add("child", parent=NewStep(action="behave"))


def test_steps_that_are_each_other_s_parents_are_refused(engine: Engine) -> None:
    one, two = str(uuid4()), str(uuid4())
    circle = [
        NewStep(action="x", label="hen", block=one, child_block=two),
        NewStep(action="x", label="egg", block=two, child_block=one),
    ]
    before = engine.snapshot()
    with pytest.raises(InvalidStep, match=r"(hen|egg) → (hen|egg)"):
        engine.app.enqueue_many(circle)
    with pytest.raises(InvalidStep, match="narcissus"):
        engine.add("narcissus", block=one, child_block=one)
    assert engine.snapshot() == before


@pytest.mark.parametrize("word", ["parent_failed", "parent_skipped", "parent_cancelled", "dormant", "children_failed"])
@pytest.mark.parametrize("outcome", [Stop, Skip])
def test_reasons_of_a_job_are_never_taken_for_those_of_the_engine(
    engine: Engine, outcome: type[Stop] | type[Skip], word: str
) -> None:
    """Else a child that says «parent_failed» would end unnoticed, and its parent would wait for ever."""

    @engine.app.job()
    def say() -> None:
        raise outcome(word)

    root = engine.add("root")
    child = engine.app.enqueue("say", parent=root)
    after = engine.app.enqueue("behave", parent=root, index=2)
    engine.settle()
    stopped = outcome is Stop
    assert engine.state("root") == ("Failed" if stopped else "Completed")
    assert str(engine.app.step(after).state) == ("NotRunnable" if stopped else "Completed")
    assert word in (engine.app.step(child).reason or "")
