"""Large workflows: counts that are made a chunk at a time, and pages that do not depend on their size."""

from __future__ import annotations

import pytest

from stepwell import NewStep, Stepwell
from stepwell.look import outline
from stepwell.look.outline import Census, Censuses, Outline, Stack
from tests.conformance.support.engine import Engine


def count(app: Stepwell, censuses: Censuses, workflow: str, *, is_settled: bool = False) -> Census:
    return censuses.of(app.database, workflow, is_settled=is_settled)


def shown(census: Census) -> dict[str, dict[str, int]]:
    return {stack.name: dict(stack.looks) for stack in census.stacks.values()}


@pytest.fixture
def workflow(app: Stepwell) -> str:
    root = NewStep(action="behave")
    children = [NewStep(action="work" if number % 5 else "other", parent=root) for number in range(25)]
    handles = app.enqueue_many([root, *children])
    return str(app.step(handles[0]).uuid)


def test_each_look_counts_one_more_chunk_until_the_count_is_exact(
    app: Stepwell, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline, "CHUNK", 10)
    censuses = Censuses()
    seen = []
    for _ in range(3):
        census = count(app, censuses, workflow)
        seen.append((census.steps, census.is_complete))
    assert seen == [(10, False), (20, False), (25, True)]
    assert shown(count(app, censuses, workflow)) == {"other": {"pending": 5}, "work": {"pending": 20}}


def test_a_count_that_is_shown_does_not_change_while_another_thread_continues_it(
    app: Stepwell, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline, "CHUNK", 10)
    censuses = Censuses()
    begun = count(app, censuses, workflow)
    before = (begun.steps, shown(begun))
    count(app, censuses, workflow)
    assert (begun.steps, shown(begun)) == before


def test_until_the_next_count_is_complete_the_last_one_is_shown(
    app: Stepwell, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    censuses = Censuses()
    assert count(app, censuses, workflow).steps == 25
    monkeypatch.setattr(outline, "CHUNK", 20)
    app.cancel(app.lists.steps(workflow=workflow, action="work", limit=1).rows[0].id, who="ann")
    half_counted = count(app, censuses, workflow)
    assert half_counted.states == {"Pending": 25}
    assert {stack.action: stack.steps for stack in half_counted.below(app.step(workflow).id)} == {
        "other": 5,
        "work": 20,
    }
    assert count(app, censuses, workflow).states == {"Pending": 24, "Cancelled": 1}


def test_a_settled_workflow_is_counted_once_and_again_when_it_returns(app: Stepwell, workflow: str) -> None:
    censuses = Censuses()
    app.cancel(workflow, who="ann")
    first = count(app, censuses, workflow, is_settled=True)
    assert first.states == {"Pending": 25}, "they follow their parent with the next tick"
    app.run_until_idle()
    settled = count(app, censuses, workflow, is_settled=True)
    assert count(app, censuses, workflow, is_settled=True) is settled
    assert settled.states == {"Cancelled": 25}
    app.retry(workflow, who="ann")
    assert count(app, censuses, workflow).states == {"Pending": 25}


def test_what_is_beyond_the_stacks_that_are_told_apart_is_counted_in_the_totals(
    app: Stepwell, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline, "MOST_STACKS", 1)
    census = count(app, Censuses(), workflow)
    assert (census.steps, len(census.stacks)) == (25, 1)


def test_pages_of_a_workflow_are_in_the_order_of_creation(app: Stepwell, workflow: str) -> None:
    found, root = Outline(app.database, workflow), app.step(workflow)
    ids = [row.id for row in reversed(app.lists.steps(workflow=workflow).rows) if row.id != root.id]
    first = found.page(0, 10)
    assert [step.id for step in first] == ids[:10]
    assert [step.id for step in found.page(first[-1].id, 100)] == ids[10:]
    assert [step.id for step in found.children(root.id, ids[4], 3)] == ids[5:8]
    assert (found.is_larger_than(24), found.is_larger_than(25)) == (True, False)


def test_the_members_of_a_stack_are_its_own(app: Stepwell, workflow: str) -> None:
    found, root = Outline(app.database, workflow), app.step(workflow)
    others = {stack.action: stack for stack in count(app, Censuses(), workflow).below(root.id)}
    assert [step.action for step in found.members(others["other"], 100)] == ["other"] * 5
    assert [step.action for step in found.members(others["work"], 7)] == ["work"] * 7


def test_the_members_of_a_stack_on_top_are_those_of_its_name_in_the_template(app: Stepwell) -> None:
    first = app.enqueue("work")
    app.enqueue_many([NewStep(action="work", depends_on=[first]) for _ in range(3)])
    workflow = str(app.step(first).workflow_id)
    [stack] = count(app, Censuses(), workflow).below(None)
    assert (stack.steps, stack.key) == (3, f"g{stack.first}")
    assert len(Outline(app.database, workflow).members(stack, 100)) == 3
    named = Stack(None, "priced", "work", stack.first, 1)
    assert Outline(app.database, workflow).members(named, 100) == []


def test_failed_and_running_steps_are_found_without_reading_the_rest(engine: Engine) -> None:
    engine.plant("root(bad:fail, good, other)")
    root = engine.app.step(engine.refs["root"])
    found = Outline(engine.app.database, root.uuid)
    with engine.worker() as runner:
        engine.tick()
        for claim in runner.claim(1):
            runner._run(claim)
        engine.tick()
        claims = runner.claim(3)
        assert {step.name for step in found.in_flight(20)} == {"bad", "good", "other"}
        for claim in claims:
            runner._run(claim)
        engine.tick()
    engine.settle()
    assert [step.id for step in found.failed(root.id, 20)] == [engine.refs["bad"].id]
    assert found.in_flight(20) == []
