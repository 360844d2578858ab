"""Lists: every source has all steps that match, pages follow each other, and what is counted is what is listed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from stepwell import NewStep, Stepwell
from stepwell.look.lists import StepRow
from stepwell.model.errors import StepwellError
from stepwell.model.states import State
from tests.conformance.support.engine import Engine

LIVES = "a:fail, b:throttle/ok, c:skip, d:stop, e, root(x:fail, y, z), busy(p, q > r), late:retry/ok, idle(s > t)"


def _all(app: Stepwell, *, limit: int = 3, budget: int = 5, **filters: Any) -> list[int]:
    found: list[int] = []
    before, pages = None, 0
    while True:
        page = app.lists.steps(limit=limit, before=before, budget=budget, **filters)
        assert page.looked_at <= budget
        assert len(page.rows) <= limit
        found += [row.id for row in page.rows]
        pages += 1
        assert pages < 100
        if page.next is None:
            return found
        assert before is None or page.next < before
        before = page.next


@pytest.fixture
def lived(engine: Engine) -> Iterator[Engine]:
    engine.plant(LIVES)
    for index in range(3):
        engine.app.enqueue("behave", {"outcome": "ok"}, relatable=("order", index % 2))
    engine.app.cancel(engine.refs["idle"], who="ann")
    with engine.worker() as runner:
        for _ in range(2):
            engine.tick()
            for claim in runner.claim(8):
                runner._run(claim)
        engine.app.enqueue_many([NewStep(action="behave", arguments={"outcome": "ok"}) for _ in range(4)])
        engine.app.enqueue("nobody", delay=60)
        runner.claim(2)  # they run while the test looks
        engine.tick()
        yield engine


def test_each_source_has_every_step_that_matches(lived: Engine) -> None:
    app = lived.app
    steps = app.steps(limit=1_000)
    assert len({step.state for step in steps}) >= 7
    for state in State:
        expected = [step.id for step in steps if step.state is state]
        assert _all(app, state=state) == expected, state
        assert app.lists.count(state=state).steps == len(expected)
        assert [step.id for step in app.steps(state=state, limit=1_000)] == expected
    both = [step.id for step in steps if step.state in ("Running", "Failed")]
    assert _all(app, state=["Running", "Failed"]) == both
    lead = next(step for step in steps if step.label == "root")
    assert _all(app, parent=lead.id) == [step.id for step in steps if step.parent_step_id == lead.id]
    assert _all(app, workflow=lead.workflow_id) == [step.id for step in steps if step.workflow_id == lead.workflow_id]
    assert _all(app, block=lead.child_block_uuid) == _all(app, parent=lead.id)
    assert _all(app, relatable=("order", 0)) == [step.id for step in steps if step.relatable_id == "0"]
    assert _all(app, id=[lead.id]) == [lead.id]
    assert _all(app, throttled=True) == [step.id for step in steps if step.is_throttled and step.state == "Pending"]
    assert _all(app, reason="error") == [step.id for step in steps if step.reason == "error"]
    assert _all(app, action="behave") == [step.id for step in steps if step.action == "behave"]


def test_pages_of_the_children_of_a_step_and_of_a_workflow_follow_each_other(lived: Engine) -> None:
    app = lived.app
    steps = app.steps(limit=1_000)
    for root in (step for step in steps if step.label in ("root", "busy", "idle")):
        children = [step for step in steps if step.parent_step_id == root.id]
        members = [step for step in steps if step.workflow_id == root.workflow_id]
        assert 2 <= len(children) < len(members)
        assert _all(app, parent=root.id, limit=1, budget=1) == [step.id for step in children]
        assert _all(app, workflow=root.uuid, limit=2) == [step.id for step in members]
        for state in {step.state for step in members}:
            asked: dict[str, Any] = {"state": state, "parent": root.id, "workflow": root.uuid}
            assert _all(app, **asked) == [step.id for step in children if step.state is state]
            del asked["parent"]
            assert _all(app, **asked) == [step.id for step in members if step.state is state]
        assert _all(app, parent=root.id, workflow=steps[0].uuid) == []
        assert app.lists.count(parent=root.id).steps == len(children)


def test_a_parent_about_which_a_tick_has_to_decide_is_listed_as_running(engine: Engine) -> None:
    engine.plant("root(one)")
    with engine.worker() as runner:
        for label in ("root", "one"):
            [claim] = engine.claim(runner, label)
            runner._run(claim)
        assert engine.states("root", "one") == {"root": "Running", "one": "Completed"}
        assert _all(engine.app, state="Running") == [engine.refs["root"].id]
    engine.settle()
    assert _all(engine.app, state="Running") == []


def test_the_agenda_is_listed_by_status(lived: Engine) -> None:
    agenda = lived.sql("SELECT step_id, status FROM steps_agenda ORDER BY step_id DESC")
    for name, status in (
        ("ready", "open"),
        ("delayed", "delayed"),
        ("running", "running"),
        ("dispatched", "dispatched"),
    ):
        assert _all(lived.app, status=name) == [row["step_id"] for row in agenda if row["status"] == status]
    with pytest.raises(StepwellError, match="unknown status 'redy'; did you mean"):
        lived.app.lists.steps(status="redy")


def test_steps_are_found_by_their_arguments(app: Stepwell) -> None:
    values: list[Any] = [1, "1", True, None, "x", {"deep": ["a", {"b": 2}]}]
    ids = [app.enqueue("nobody", {"value": value, "odd key": 1}).id for value in values]
    assert _all(app, args={"value": 1}) == [ids[1], ids[0]]
    assert _all(app, args={"value": True}) == [ids[2]]
    assert _all(app, args={"value": None}) == [ids[3]]
    assert _all(app, args={"value": "x", "odd key": 1}) == [ids[4]]
    assert _all(app, args={"value.deep.1.b": 2}) == [ids[5]]
    assert _all(app, args={"no": "where"}) == []
    assert _all(app, args={'"; --': "'"}) == []


def test_a_search_that_finds_nothing_ends_with_its_budget_and_can_be_continued(app: Stepwell) -> None:
    first = app.enqueue("nobody", {"here": 1})
    app.enqueue_many([NewStep(action="nobody", arguments={}) for _ in range(600)])
    page = app.lists.steps(args={"here": 1}, budget=250)
    assert (page.rows, page.looked_at) == ([], 250)
    assert page.next is not None
    page = app.lists.steps(args={"here": 1}, budget=1_000, before=page.next)
    assert [row.id for row in page.rows] == [first.id]
    assert (page.next, page.looked_at) == (None, 351)


def test_rows_carry_no_arguments_response_or_stack(app: Stepwell) -> None:
    app.enqueue("nobody", {"secret": 1})
    [row] = app.lists.steps().rows
    assert isinstance(row, StepRow)
    assert not {"arguments", "response", "error_stack_trace", "checkpoint"}.intersection(StepRow.__struct_fields__)


def test_what_ended_is_found_by_when_it_ended(lived: Engine) -> None:
    app, now = lived.app, lived.clock.now()
    ended = [step.id for step in app.steps(limit=1_000) if step.completed_at is not None]
    assert _all(app, ended_after=now - timedelta(days=1)) == ended
    assert _all(app, ended_before=now - timedelta(days=1)) == []


def test_a_count_is_exact_or_says_that_it_is_not(app: Stepwell) -> None:
    app.enqueue_many([NewStep(action="nobody", label="x") for _ in range(1_100)])
    assert app.lists.count(action="nobody", state="Pending") == app.lists.count()
    assert (app.lists.count().steps, app.lists.count().exact) == (1_100, True)
    capped = app.lists.count(type="default")
    assert (capped.steps, capped.exact) == (1_000, False)
