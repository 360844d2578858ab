"""What is done by hand from Python leaves the same rows as over HTTP (tests/conformance/web/test_audit_trail.py)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from stepwell import ActionRefused, InvalidStep, Stepwell, WorkflowConflict
from stepwell.operate.retention import RetentionOptions
from stepwell.testing import ManualClock
from tests.conformance.web.support import Death, Died


def trail(app: Stepwell) -> list[tuple[str, str | None, str | None, Any]]:
    """Kind, who, why and parameters; the oldest first."""
    return [(row.kind, row.actor, row.reason, row.parameters) for row in reversed(app.operations.newest(limit=1_000))]


def test_a_step_that_a_person_creates_is_recorded_and_one_that_code_creates_is_not(app: Stepwell) -> None:
    app.enqueue("work")
    by_hand = app.enqueue("work", who="ann", why="missing")
    assert trail(app) == [("enqueue", "operator:ann", "missing", {"action": "work"})]
    assert [row.kind for row in app.operations.of_step(by_hand.id)] == ["enqueue"]


def test_a_step_that_exists_under_its_key_is_not_recorded_again(app: Stepwell) -> None:
    first = app.enqueue("work", key="k", who="ann")
    assert app.enqueue("work", key="k", who="bob").id == first.id
    assert [actor for _, actor, *_ in trail(app)] == ["operator:ann"]


@pytest.mark.one_database
def test_a_step_that_a_person_creates_is_no_part_of_a_transaction_of_the_caller(app: Stepwell) -> None:
    with pytest.raises(InvalidStep, match="omit `connection`"):
        app.enqueue("work", who="ann", connection=object())
    with pytest.raises(ActionRefused):
        app.enqueue("work", who="")
    assert app.steps() == []


@pytest.mark.one_database
def test_a_reason_without_a_person_is_refused(app: Stepwell) -> None:
    for act in (
        lambda: app.enqueue("work", why="missing"),
        lambda: app.limits.set("total", "", 3, why="slow disk"),
        lambda: app.retention.prune(keep_days=1, why="full disk"),
    ):
        with pytest.raises(ActionRefused, match="say who does it"):
            act()
    assert (app.steps(), app.limits.all()) == ([], {})


def test_a_workflow_that_a_person_starts_is_recorded_unless_it_is_refused(app: Stepwell) -> None:
    order = app.workflows().workflow("order")
    order.gate("approval")
    order.start()
    run = order.start(who="ann", reason="asked for", key="k")
    with pytest.raises(WorkflowConflict):
        order.start(who="ann", reason="asked for", key="k")
    assert trail(app) == [("start_workflow", "operator:ann", "asked for", {"name": "default.order", "version": "1"})]
    assert [row.kind for row in app.operations.of_workflow(run.id)] == ["start_workflow"]


def test_a_limit_that_a_person_changes_is_recorded_with_its_value(app: Stepwell) -> None:
    app.limits.set("queue", "default", 3)
    app.limits.set("queue", "default", 3, who="ann")
    app.limits.set("queue", "default", 4, who="ann", why="slow disk")
    app.limits.set("queue", "default", None, who="bob")
    app.limits.set("queue", "default", None, who="bob")
    limit = {"limit": "queue", "name": "default"}
    assert trail(app) == [
        ("set_limit", "operator:ann", "slow disk", {**limit, "maximum": 4}),
        ("set_limit", "operator:bob", None, {**limit, "maximum": None}),
    ]


def test_who_paused_first_and_why_stays_and_a_second_pause_leaves_no_row(app: Stepwell) -> None:
    app.breaker.resume("ann")
    app.breaker.pause("ann", "deploy")
    app.breaker.pause("bob", "lunch")
    state = app.breaker.state()
    assert (state.changed_by, state.reason) == ("operator:ann", "deploy")
    app.breaker.resume("bob")
    app.breaker.resume("bob")
    assert [(kind, actor) for kind, actor, *_ in trail(app)] == [("pause", "operator:ann"), ("resume", "operator:bob")]


def test_a_second_pause_of_a_workflow_changes_nothing_and_its_undo_does_not_end_the_first(app: Stepwell) -> None:
    order = app.workflows().workflow("order")
    order.gate("approval")
    run = order.start()
    run.pause(who="ann", why="look")
    run.pause(who="bob")
    again = app.operations.preview("pause_workflow", id=[run.id])
    assert again.counts().refused == 1
    operation = again.execute(who="bob")
    operation.undo(who="bob")
    assert "paused" in app.explain(run.step("approval").id).summary
    assert [(kind, actor) for kind, actor, *_ in trail(app)] == [
        ("pause_workflow", "operator:ann"), ("pause_workflow", "operator:bob"), ("undo", "operator:bob"),
    ]  # fmt: skip


def old_steps(app: Stepwell, clock: ManualClock, count: int = 3) -> None:
    @app.job()
    def work() -> None: ...

    app.enqueue_many([work.draft() for _ in range(count)])
    app.run_until_idle()
    clock.advance(60 * 86_400)


def test_what_a_person_prunes_or_archives_is_recorded_with_its_numbers(app: Stepwell, clock: ManualClock) -> None:
    old_steps(app, clock)
    app.retention.archive(keep_days=30, who="ann", why="disk")
    app.retention.archive(keep_days=30, who="ann")  # nothing is left
    numbers = [(kind, actor, why, {**what, "before": ""}) for kind, actor, why, what in trail(app)]
    gone = {"before": "", "workflows": 3, "steps": 3, "from_archive": 0}
    assert numbers == [("archive", "operator:ann", "disk", gone)]
    clock.advance(400 * 86_400)
    app.retention.prune(keep_days=30, who="bob")
    app.retention.prune(keep_days=30)
    numbers = [(kind, actor, why, {**what, "before": ""}) for kind, actor, why, what in trail(app)]
    assert numbers == [("prune", "operator:bob", None, {**gone, "workflows": 0, "steps": 0, "from_archive": 3})]


def test_a_pass_that_dies_has_recorded_what_it_had_removed(app: Stepwell, clock: ManualClock) -> None:
    old_steps(app, clock, 6)
    app.retention.options = RetentionOptions(batch=2)
    removed = []
    for _ in range(20):
        with Death(app, 2) as death, suppress(Died):
            app.retention.prune(keep_days=30, who="ann")
        rows = trail(app)
        assert sum(what["steps"] for *_, what in rows) == 6 - len(app.steps())
        removed.append(len(rows))
        if not death.has_come:
            break
    assert app.steps() == []
    assert max(removed) > 1
