"""A workflow settles in the transaction that ends its last step, whoever ends it."""

from __future__ import annotations

import pytest

from stepwell import InvalidStep, NewStep
from stepwell.model.errors import ActionRefused
from tests.conformance.support.engine import Engine, returned
from tests.conformance.workflow.flows import (
    execution_of,
    job,
    path_of,
    row_of,
    start,
    states_of,
    steps_of,
)


def test_a_workflow_is_pending_then_in_progress_then_complete(engine: Engine) -> None:
    flow = start(engine.app, job("a"), job("b", after=("a",)))
    assert row_of(engine.app, flow).state == "pending"
    assert execution_of(engine.app, flow).execution_status == "has_ready_steps"
    engine.settle()
    assert path_of(engine.app, flow) == ["pending", "in_progress", "complete"]
    assert execution_of(engine.app, flow).execution_status == "all_complete"


def test_the_end_of_the_last_step_settles_the_workflow_in_its_own_transaction(engine: Engine) -> None:
    flow = start(engine.app, job("a"))
    engine.refs["a"] = steps_of(engine.app, flow)["a"].ref
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "a")
        assert row_of(engine.app, flow).state == "in_progress"
        returned(engine.app._finisher, claim, None)
    row, step = row_of(engine.app, flow), engine["a"]
    assert (row.state, row.settled_at, row.actor) == ("complete", step.completed_at, step.actor)


def test_a_failure_settles_as_error_and_a_retry_reopens(engine: Engine) -> None:
    flow = start(engine.app, job("a", outcome=["fail", "ok"]), job("b", after=("a",)))
    engine.settle()
    assert states_of(engine.app, flow) == {"a": "Failed", "b": "NotRunnable"}
    assert row_of(engine.app, flow).state == "error"
    assert execution_of(engine.app, flow).execution_status == "blocked_by_failures"
    engine.app.retry(steps_of(engine.app, flow)["a"], who="alice")
    assert row_of(engine.app, flow).state == "in_progress"
    engine.change("UPDATE steps SET arguments = '{}' WHERE template = 'a'")
    engine.settle()
    assert path_of(engine.app, flow) == ["pending", "in_progress", "error", "in_progress", "complete"]


def test_the_reaper_a_cascade_and_an_operator_settle_too(engine: Engine) -> None:
    app = engine.app
    flow = start(app, job("a", spawn=[{"label": "child", "outcome": "fail"}]))  # its parent fails in a tick
    engine.settle()
    assert row_of(app, flow).state == "error"
    other = start(app, job("a"))
    app.cancel(steps_of(app, other)["a"], who="alice")
    assert row_of(app, other).state == "cancelled"


def test_a_lease_that_is_still_held_keeps_a_workflow_unsettled(engine: Engine) -> None:
    flow = start(engine.app, job("a"))
    engine.refs["a"] = steps_of(engine.app, flow)["a"].ref
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "a")
        engine.app.cancel(engine.refs["a"], who="alice")
        assert (engine.state("a"), row_of(engine.app, flow).state) == ("Cancelled", "in_progress")
        engine.app._finisher.release_lease(claim)
    assert row_of(engine.app, flow).state == "cancelled"


def test_a_workflow_with_nothing_to_run_is_complete_at_its_start(engine: Engine) -> None:
    assert row_of(engine.app, start(engine.app)).state == "complete"
    bypassed = start(engine.app, job("a", skippable=True), bypass_steps=["a"])
    assert row_of(engine.app, bypassed).state == "complete"
    assert states_of(engine.app, bypassed) == {"a": "Skipped"}


def test_a_settled_workflow_accepts_no_new_steps(engine: Engine) -> None:
    flow = start(engine.app, job("a"))
    extra = engine.app.enqueue("behave", workflow=flow)
    engine.settle()
    assert engine.app.step(extra).belongs_to == "workflow"
    assert row_of(engine.app, flow).state == "complete"
    with pytest.raises(InvalidStep, match="has settled"):
        engine.app.enqueue_many([NewStep(action="behave", workflow=flow)])


def test_cancelling_a_workflow_ends_every_step_in_one_transaction_and_a_retry_brings_all_of_it_back(
    engine: Engine,
) -> None:
    app = engine.app
    flow = start(
        app,
        job("a", outcome="fail"),
        job("b", after=("a",)),
        job("c", delay=60),
        job("report", after=("c",), trigger="all_ended"),
    )
    app.run_until_idle()
    app.workflow_engine.actions.cancel(flow, "alice", "wrong customer")
    assert states_of(app, flow) == {"a": "Failed", "b": "Cancelled", "c": "Cancelled", "report": "Cancelled"}
    assert (row_of(app, flow).state, row_of(app, flow).reason) == ("cancelled", "operator: wrong customer")
    with pytest.raises(ActionRefused, match="has settled"):
        app.workflow_engine.actions.cancel(flow, "alice")
    engine.change("UPDATE steps SET arguments = '{}' WHERE template = 'a'")
    assert len(app.workflow_engine.actions.retry(flow, "bob")) == 4
    engine.settle()
    assert set(states_of(app, flow).values()) == {"Completed"}
    assert path_of(app, flow) == ["pending", "in_progress", "cancelled", "in_progress", "complete"]


def test_only_an_operator_resolves_and_only_a_settled_error_or_cancelled_workflow(engine: Engine) -> None:
    actions = engine.app.workflow_engine.actions
    flow = start(engine.app, job("a", outcome="fail"))
    with pytest.raises(ActionRefused, match="only one that ended in error"):
        actions.resolve(flow, "alice")
    engine.settle()
    actions.resolve(flow, "alice", "refunded by hand")
    assert row_of(engine.app, flow).state == "resolved_manually"
    engine.app.retry(steps_of(engine.app, flow)["a"], who="alice")
    assert row_of(engine.app, flow).state == "in_progress"
