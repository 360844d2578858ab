"""Handles of existing steps, of many steps at once, and the operator's actions on them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from stepwell import Handle, InvalidStep, NewStep, State, StepNotFound, Stepwell, StepwellError, current_step


def test_a_handle_is_found_by_id_and_by_uuid_and_has_the_type_of_its_job(app: Stepwell) -> None:
    @app.job
    def pair(number: int) -> tuple[int, int]:
        return number, number

    created = pair.enqueue(1)
    app.run_until_idle()
    for which in (created.id, created.uuid, str(created.id), created, app.step(created)):
        handle = app.handle(which)
        assert isinstance(handle, Handle)
        assert handle == created
        assert handle.result(0) == (1, 1)
    with pytest.raises(StepNotFound):
        app.handle(987_654)


def test_a_handle_of_an_action_that_the_app_does_not_have_returns_the_stored_result(app: Stepwell) -> None:
    handle = app.enqueue("of another program")
    app.complete(handle, who="ann", response={"a": [1]})
    assert app.handle(handle.id).result(0) == handle.result(0) == {"a": [1]}


def test_enqueue_many_returns_a_handle_for_each_step_in_order(app: Stepwell) -> None:
    @app.job
    def double(number: int) -> int:
        return 2 * number

    handles = app.enqueue_many([double.draft(1), NewStep(action="double", arguments={"number": 2}), double.draft(3)])
    app.run_until_idle()
    assert [handle.result(0) for handle in handles] == [2, 4, 6]
    assert [handle.id for handle in handles] == sorted(handle.id for handle in handles)
    assert app.enqueue_many([]) == []


def test_children_of_the_running_step_have_handles_too(app: Stepwell) -> None:
    handles: list[Handle[Any]] = []

    @app.job
    def part(number: int) -> int:
        return number

    @app.job
    def split() -> None:
        drafts = [NewStep(action="part", arguments={"number": n}, parent=current_step()) for n in (1, 2)]
        handles.extend(app.enqueue_many(drafts))

    split.enqueue()
    app.run_until_idle()
    assert [handle.result(0) for handle in handles] == [1, 2]


def test_a_handle_cancels_and_retries_its_step_and_the_history_says_who_and_why(app: Stepwell) -> None:
    @app.job
    def double(number: int) -> int:
        return 2 * number

    handle = double.enqueue(1)
    handle.cancel(who="ann", why="a mistake")
    assert handle.step().state is State.CANCELLED
    assert handle.retry(who="bob", why="it was none").revived == [handle.id]
    app.run_until_idle()
    assert handle.result(0) == 2
    actors = [(row.actor, row.reason) for row in app.history(handle) if row.actor and row.actor.startswith("operator")]
    assert [actor for actor, _ in actors] == ["operator:ann", "operator:bob"]
    assert "a mistake" in str(actors[0][1])


@pytest.mark.one_database
def test_a_handle_of_an_app_that_no_other_process_can_import_is_not_pickled(app: Stepwell) -> None:
    with pytest.raises(StepwellError, match="assign it to a variable of a module"):
        pickle.dumps(app.enqueue("nobody"))


@pytest.mark.one_database
@pytest.mark.parametrize("given", [["f"], "f", [None], [7], NewStep(action="f"), None, {"action": "f"}])
def test_enqueue_many_refuses_what_is_not_a_list_of_drafts_in_our_own_words(app: Stepwell, given: Any) -> None:
    with pytest.raises(InvalidStep, match=r"enqueue_many\(.*pass .*drafts.*nothing was written"):
        app.enqueue_many(given)
    with pytest.raises(InvalidStep, match="already exists; pass a draft"):
        app.enqueue_many([app.enqueue("f")])  # type: ignore[list-item]


# Is a workflow of these actions live for this object? -------------------------------------------------------


def test_a_workflow_about_an_object_is_live_until_all_its_steps_have_ended(app: Stepwell) -> None:
    order = ("order", 7)

    @app.job
    def charge() -> None: ...

    @app.job
    def ship() -> None: ...

    assert not app.is_live(order)
    first = NewStep(action="charge", relatable=order)
    second = NewStep(action="ship", depends_on=[first], delay=60)
    handles = app.enqueue_many([first, second])
    assert app.is_live(order)
    assert app.is_live(("order", "7"), ["refund", "charge"])
    assert not app.is_live(order, ["refund", "ship"])
    assert not app.is_live(order, [])
    assert not app.is_live(("order", 8))
    assert not app.is_live(("invoice", 7))
    app.run_until_idle()
    assert handles[0].step().state is State.COMPLETED
    assert app.is_live(order, ["charge"])  # the rest of its workflow is still to come
    handles[1].cancel(who="ann")
    app.run_until_idle()
    assert not app.is_live(order, ["charge"])
    assert not app.is_live(order)


def test_a_step_of_plain_sql_counts_before_it_is_adopted(app: Stepwell) -> None:
    app.database.transact(
        lambda tx: tx.execute(
            "INSERT INTO steps (action, relatable_type, relatable_id) VALUES ('charge', 'order', '7')", {}
        )
    )
    assert app.is_live(("order", 7), ["charge"])


@pytest.mark.one_database
def test_is_live_takes_a_list_of_actions_not_a_text(app: Stepwell) -> None:
    with pytest.raises(StepwellError, match="pass a list"):
        app.is_live(("order", 7), "charge")
