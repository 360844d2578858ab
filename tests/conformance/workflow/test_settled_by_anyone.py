"""Whoever ends the last step settles the workflow, and nothing else pays for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from bench.counting import counted
from stepwell import Permanent, State, StepRef, Stepwell, Workflow
from stepwell.events import WorkflowCancelled
from stepwell.model.actors import By
from stepwell.model.claimed import Claim
from stepwell.model.errors import ActionRefused
from stepwell.model.leases import LEASE_SECONDS
from stepwell.run.inline import InlineRunner
from stepwell.store import Transaction
from stepwell.store.engine.runs import Success, finish_all
from stepwell.workflow.by_hand.actions import cancel
from stepwell.workflow.run import Run
from tests.conformance.support.engine import Engine, failed, returned


def only() -> str:
    return "done"


def fails() -> None:
    raise Permanent("no")


def behind(only: str) -> str:
    return only


def one_step(app: Stepwell, **options: Any) -> Workflow[Any]:
    flow = app.workflows("shop").workflow("one")
    flow.step(**options)(only)
    return flow


def by_the_reaper(engine: Engine, run: Run) -> str:
    """Its worker died for the fourth time."""
    engine.refs["only"] = run.step("only").ref
    reaper = engine.app.reaper()
    for _ in range(4):
        with engine.worker() as runner:
            engine.claim(runner, "only")
            engine.clock.advance(LEASE_SECONDS + 1)
            reaper.round()
        engine.clock.advance(60)
    assert run.step("only").reason == "poison"
    return "error"


def by_phase_8(engine: Engine, run: Run) -> str:
    engine.change("UPDATE steps SET retries = 9 WHERE id = :id", id=run.step("only").id)
    engine.change("UPDATE steps_agenda SET status = 'unchecked' WHERE step_id = :id", id=run.step("only").id)
    engine.tick()
    assert run.step("only").reason == "max_retries_reached"
    return "error"


def by_an_operators_skip(engine: Engine, run: Run) -> str:
    engine.app.skip(run.step("only"), who="alice")
    return "complete"


def by_an_operators_completion(engine: Engine, run: Run) -> str:
    engine.app.complete(run.step("only"), who="alice", response="x")
    return "complete"


def by_an_operators_failure(engine: Engine, run: Run) -> str:
    engine.app.transition_to(run.step("only"), State.FAILED, who="alice")
    return "error"


def by_an_operators_cancellation(engine: Engine, run: Run) -> str:
    engine.app.cancel(run.step("only"), who="alice")
    return "cancelled"


def by_the_release_of_a_lease(engine: Engine, run: Run) -> str:
    engine.refs["only"] = run.step("only").ref
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "only")
        engine.app.cancel(run.step("only"), who="alice")
        assert run.state == "in_progress"
        engine.app._finisher.release_lease(claim)
    return "cancelled"


def by_the_reaper_of_a_lease(engine: Engine, run: Run) -> str:
    engine.refs["only"] = run.step("only").ref
    with engine.worker() as runner:
        engine.claim(runner, "only")
        engine.app.transition_to(run.step("only"), State.STOPPED, who="alice")
        assert run.state == "in_progress"
        engine.clock.advance(LEASE_SECONDS + 1)
        engine.app.reaper().round()
    return "error"


def by_plain_sql(engine: Engine, run: Run) -> str:
    engine.change(
        "UPDATE steps SET state = 'Skipped', reason = 'by hand', changed_from = 'Pending', completed_at = updated_at "
        "WHERE id = :id",
        id=run.step("only").id,
    )
    engine.tick()
    return "complete"


@pytest.mark.parametrize(
    "ends",
    [
        by_the_reaper, by_phase_8, by_an_operators_skip, by_an_operators_completion, by_an_operators_failure,
        by_an_operators_cancellation, by_the_release_of_a_lease, by_the_reaper_of_a_lease, by_plain_sql,
    ],
)  # fmt: skip
def test_whoever_ends_the_last_step_settles_the_workflow(engine: Engine, ends: Callable[[Engine, Run], str]) -> None:
    run = one_step(engine.app, skippable=True).start()
    state = ends(engine, run)
    assert run.state == state
    assert run.execution().execution_status == ("all_complete" if state == "complete" else "blocked_by_failures")


def test_each_workflow_of_a_transaction_is_settled_by_the_one_who_changed_it(engine: Engine) -> None:
    app, told = engine.app, list[tuple[str, str | None]]()
    app.events.on(WorkflowCancelled)(lambda event: told.append((event.workflow_id, event.actor)))
    flow = one_step(app)
    by_actor = {f"operator:{who}": flow.start() for who in ("ann", "ben", "cid")}

    def cancel_all(tx: Transaction) -> None:
        for actor, run in by_actor.items():
            cancel(tx, run.id, By(actor, "not needed", app.clock.now()))

    app.database.transact(cancel_all)
    expected = {run.id: actor for actor, run in by_actor.items()}
    assert {run.id: run.history()[-1].actor for run in by_actor.values()} == expected
    assert dict(told) == expected


def test_a_cascade_settles_in_the_transaction_that_ends_the_last_step(engine: Engine) -> None:
    flow = one_step(engine.app)
    flow.step()(behind)
    run = flow.start()
    engine.app.cancel(run.step("only"), who="alice")
    assert run.state == "in_progress"  # the step behind it has not ended
    engine.tick()
    assert (run.step("behind").state, run.state) == (State.NOT_RUNNABLE, "cancelled")
    assert run.row().actor == run.step("behind").actor


def test_a_failed_step_beside_a_cancelled_one_makes_it_an_error(engine: Engine) -> None:
    flow = one_step(engine.app)
    flow.step()(fails)
    run = flow.start()
    engine.app.cancel(run.step("only"), who="alice")
    engine.settle()
    assert run.state == "error"


def test_a_dormant_handler_that_is_due_keeps_the_workflow_unsettled(engine: Engine) -> None:
    run = one_step(engine.app).start()
    handler = engine.app.enqueue("behave", workflow=run.id, block=run.id, type="resolve-exception", label="cleanup")
    engine.refs["only"] = run.step("only").ref
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "only")
        failed(engine.app._finisher, claim, "no")
        assert run.state == "in_progress"
    engine.settle()
    assert engine.app.step(handler).state is State.COMPLETED
    assert run.state == "error"


def test_a_handler_that_is_not_needed_does_not_keep_it_unsettled(engine: Engine) -> None:
    run = one_step(engine.app).start()
    engine.app.enqueue("behave", workflow=run.id, block=run.id, type="resolve-exception", label="cleanup")
    engine.settle()
    assert run.state == "complete"


# Pause and resume ---------------------------------------------------------------------------------------------


def test_undecided_steps_and_open_gates_survive_a_pause(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("paused")
    flow.step(when={"context.go": True})(only)
    flow.step()(behind)
    flow.gate("approval", result=bool, expires=timedelta(days=1))
    run = flow.start({"go": True})
    run.pause(who="alice", why="look")
    engine.settle()
    assert (run.step("only").state, run.state) == (State.PENDING, "pending")
    assert engine.app.sweep() == []
    run.resume(who="alice")
    engine.settle()
    assert run.step("behind").response == "done"
    run.pause(who="alice")
    engine.settle()
    assert engine.app.sweep() == []
    assert run.execution().waits_for_gates == ["approval"]
    run.resume(who="alice")
    engine.settle()
    run.answer("approval", True, who="bob")
    assert run.state == "complete"
    with pytest.raises(ActionRefused):
        run.resume(who="alice")


# The execution status -----------------------------------------------------------------------------------------


def test_the_execution_status_has_its_precedence(engine: Engine) -> None:
    flow = engine.app.workflows("shop").workflow("statuses")
    flow.step()(only)
    flow.step(delay=60)(behind)
    flow.gate("approval", after=["only"], expires=timedelta(days=1))
    run = flow.start()
    assert run.execution().execution_status == "has_ready_steps"
    engine.refs["only"] = run.step("only").ref
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "only")
        assert run.execution().execution_status == "processing"
        returned(engine.app._finisher, claim, "x")
        engine.tick()
    execution = run.execution()
    assert (execution.execution_status, execution.waits_for_gates) == ("waiting_for_dependencies", ["approval"])
    assert execution.next_change_at == engine.clock.now() + timedelta(seconds=60)
    engine.settle()
    execution = run.execution()
    assert (execution.execution_status, execution.open_gates) == ("waiting_for_dependencies", 1)
    assert execution.next_change_at == engine.clock.now() + timedelta(days=1) - timedelta(seconds=60)
    run.answer("approval", None, who="alice")
    execution = run.execution()
    assert (execution.execution_status, execution.next_change_at) == ("all_complete", None)
    assert (execution.total, execution.completed, execution.eligible, execution.blocked) == (3, 3, 0, 0)


def test_a_limit_of_zero_on_an_action_holds_the_workflow_and_explain_says_so(engine: Engine) -> None:
    app, run = engine.app, one_step(engine.app).start()
    app.limits.set("action", "shop.one.only", 0)
    engine.settle()
    assert (run.step("only").state, run.state) == (State.PENDING, "pending")
    assert run.execution().execution_status == "has_ready_steps"
    with engine.worker():
        assert "limit" in [each.condition for each in app.explain(run.step("only")).obstacles]


def test_a_step_added_to_a_pending_workflow_leaves_it_pending(engine: Engine) -> None:
    run = one_step(engine.app).start()
    engine.app.enqueue("behave", workflow=run.id)
    assert run.state == "pending"


# What is checked ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wrong", "right"), [("error", "complete"), ("in_progress", "complete")])
def test_the_sweep_and_the_invariants_find_a_workflow_that_disagrees_with_its_steps(
    engine: Engine, wrong: str, right: str
) -> None:
    run = one_step(engine.app).start()
    engine.settle()
    engine.change("UPDATE steps_workflows SET state = :state", state=wrong)
    (violation,) = engine.app.check_invariants()
    assert violation.invariant == "workflows agree with their steps"
    (finding,) = engine.app.sweep()
    assert run.id in finding.finding
    assert (run.state, engine.app.sweep()) == (right, [])


def test_the_sweep_finds_a_workflow_that_settled_too_early(engine: Engine) -> None:
    run = one_step(engine.app).start()
    engine.change("UPDATE steps_workflows SET state = 'complete'")
    assert [each.step_id for each in engine.app.sweep()] == [run.step("only").id]
    assert run.state == "in_progress"


# Cost ---------------------------------------------------------------------------------------------------------


def statements_of_an_end(engine: Engine, ref: StepRef) -> int:
    engine.refs["step"] = ref
    with engine.worker() as runner:
        (claim,) = engine.claim(runner, "step")
        with counted(engine.app.database) as counts:
            returned(engine.app._finisher, claim, None)
    return counts.statements


def test_the_finalizer_adds_no_statement_to_the_end_of_a_step_of_no_declared_workflow(engine: Engine) -> None:
    app = engine.app
    flow = one_step(app)
    plain = [statements_of_an_end(engine, app.enqueue("behave")) for _ in range(3)][-1]
    declared = statements_of_an_end(engine, flow.start().step("only").ref)
    assert declared > plain
    app.database.hooks._before_commit.clear()  # without the finalizer
    assert statements_of_an_end(engine, app.enqueue("behave")) == plain


# Children -----------------------------------------------------------------------------------------------------


def element(item: int) -> int:
    return item


def claimed_element(engine: Engine) -> tuple[Run, InlineRunner, Claim]:
    flow = engine.app.workflows("shop").workflow("mapped")
    flow.step(each={"item": "context.items"})(element)
    run = flow.start({"items": [1]})
    runner = engine.app.inline_runner()
    engine.tick()
    assert runner.round() == 1  # the map
    engine.tick()
    (claim,) = runner.claim(5)
    return run, runner, claim


def test_the_end_of_an_element_does_not_lock_the_workflow_while_its_map_waits(engine: Engine) -> None:
    run, runner, claim = claimed_element(engine)
    with counted(engine.app.database) as ends:
        returned_many(engine, claim)
    engine.tick()
    assert run.state == "complete"
    assert ends.statements <= 4
    runner.close()


def test_the_end_of_an_element_settles_the_workflow_if_its_map_was_cancelled(engine: Engine) -> None:
    run, runner, claim = claimed_element(engine)
    engine.app.cancel(run.step("element"), who="alice")
    assert run.state == "in_progress"
    returned_many(engine, claim)
    assert run.state == "cancelled"
    engine.settle()
    runner.close()


def returned_many(engine: Engine, claim: Claim) -> None:
    """As a worker writes it."""
    success = Success(claim, "1", 0.1)
    engine.app.database.transact(lambda tx: finish_all(tx, [success], actor=claim.actor, now=engine.clock.now()))
