"""An idempotency key: the same key is the same step, from any number of processes."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import InvalidStep, KeyConflict, NewStep, StepRef
from tests.conformance.support.engine import Engine, in_processes, other_app


def test_the_same_key_gives_the_same_step(engine: Engine) -> None:
    first = engine.app.enqueue("pay", {"order": 1, "lines": [1, 2]}, key="order-1")
    before = engine.snapshot()
    assert engine.app.enqueue("pay", {"lines": [1, 2], "order": 1}, key="order-1") == first
    assert engine.app.step(first).idempotency_key == "order-1"
    assert engine.snapshot() == before


def test_the_key_holds_after_the_step_has_ended(engine: Engine) -> None:
    ref = engine.add("a", key="k")
    engine.settle()
    assert engine.add("a", key="k") == ref
    assert engine.settle() == 0


def test_different_keys_and_no_keys_give_different_steps(engine: Engine) -> None:
    refs = {engine.app.enqueue("pay", key=key) for key in ("a", "b", "A", " a", None, None)}
    assert len(refs) == 6


def test_a_key_may_hold_what_lists_and_quotes_are_made_of(engine: Engine) -> None:
    keys = ['"', '""', "\\", '\\"', "a,b", "a, b", "{a}", "{", "}", "NULL", "null", "'", "[1]", "%s", ":key", "é😀"]
    drafts = [NewStep(action="pay", key=key, arguments={"key": key}) for key in keys]
    refs = engine.app.enqueue_many(drafts)
    assert len(set(refs)) == len(keys)
    assert engine.app.enqueue_many(drafts) == refs
    assert [engine.app.step(ref).idempotency_key for ref in refs] == keys


@pytest.mark.parametrize(
    ("action", "arguments"),
    [("pay", {"order": 2}), ("pay", {}), ("pay", {"order": "1"}), ("refund", {"order": 1})],
)
def test_a_key_with_another_action_or_other_arguments_is_a_conflict(
    engine: Engine, action: str, arguments: dict[str, Any]
) -> None:
    ref = engine.app.enqueue("pay", {"order": 1}, key="order-1")
    before = engine.snapshot()
    with pytest.raises(KeyConflict, match=rf"'order-1' belongs to step {ref.id} \(pay\)"):
        engine.app.enqueue(action, arguments, key="order-1")
    with pytest.raises(KeyConflict):
        engine.app.enqueue_many([NewStep(action="other"), NewStep(action=action, arguments=arguments, key="order-1")])
    assert engine.snapshot() == before


def test_one_key_twice_in_one_call_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidStep, match="'k'"):
        engine.app.enqueue_many([NewStep(action="a", key="k"), NewStep(action="a", key="k")])
    assert engine.app.steps() == []


def tree() -> list[NewStep]:
    parent = NewStep(action="behave", label="parent", key="parent")
    child = NewStep(action="behave", label="child", parent=parent, key="child")
    return [parent, child, NewStep(action="behave", label="after", depends_on=[parent], key="after")]


def test_a_whole_tree_can_be_enqueued_again(engine: Engine) -> None:
    refs = engine.app.enqueue_many(tree())
    assert engine.app.enqueue_many(tree()) == refs
    engine.settle()
    assert engine.app.enqueue_many(tree()) == refs
    assert len(engine.app.steps()) == 3


def test_a_new_step_may_belong_to_one_that_its_key_has_found(engine: Engine) -> None:
    (parent, *_) = engine.app.enqueue_many(tree())
    drafts = tree()
    more = NewStep(action="behave", label="one more", parent=drafts[0])
    refs = engine.app.enqueue_many([*drafts, more, NewStep(action="behave", depends_on=[drafts[0]])])
    assert refs[0] == parent
    assert engine.app.step(refs[3]).parent_step_id == parent.id
    engine.settle()
    assert str(engine.app.step(refs[4]).state) == "Completed"


def enqueue_with_keys(url: str, count: int, backwards: bool, bulk: bool) -> list[StepRef]:
    numbers = list(range(count))[:: -1 if backwards else 1]
    drafts = [NewStep(action="pay", arguments={"order": n}, key=f"order-{n}") for n in numbers]
    with other_app(url) as app:
        if bulk:
            refs = app.enqueue_many(drafts)
        else:
            refs = [app.enqueue_many([draft])[0] for draft in drafts]
    return [StepRef(ref.id, ref.uuid) for ref in refs[:: -1 if backwards else 1]]


@pytest.mark.slow
@pytest.mark.parametrize("bulk", [False, True], ids=["one by one", "in bulk"])
def test_processes_that_use_the_same_keys_at_once_get_the_same_steps(shared_database_url: str, bulk: bool) -> None:
    with other_app(shared_database_url) as app:
        calls = [(shared_database_url, 30, backwards, bulk) for backwards in (False, True, False)]
        one, two, three = in_processes(enqueue_with_keys, calls)
        assert one == two == three
        assert len(app.steps(limit=100)) == 30
        assert app.check_invariants() == []
