"""The state of a task follows from its step: one table, in one definition."""

from __future__ import annotations

import pytest

from stepwell import State, Stepwell
from stepwell.model.task_states import TASK_STATES, TaskState
from stepwell.store import Transaction
from stepwell.testing import ManualClock
from tests.conformance.processes.crystal import Tasks, refuse

BY_STATE: list[tuple[State, TaskState]] = [
    (State.PENDING, "new"),
    (State.DISPATCHED, "new"),
    (State.RUNNING, "running"),
    (State.COMPLETED, "completed"),
    (State.SKIPPED, "completed"),
    (State.FAILED, "error"),
    (State.STOPPED, "error"),
    (State.CANCELLED, "error"),
    (State.NOT_RUNNABLE, "error"),
]


def view_of(app: Stepwell) -> dict[str, str]:
    """The states as plain SQL sees them."""
    query = "SELECT task_class, state FROM steps_main_process_tasks"
    return {row["task_class"]: row["state"] for row in app.database.read(lambda tx: tx.fetch(query, {}))}


def change(app: Stepwell, statement: str) -> None:
    def work(tx: Transaction) -> int:
        return tx.execute(statement, {})

    assert app.database.transact(work) > 0


def test_every_state_of_a_step_has_a_state_of_its_task() -> None:
    assert dict(BY_STATE) == TASK_STATES
    assert set(TASK_STATES) == set(State)


@pytest.mark.parametrize(("state", "expected"), BY_STATE, ids=lambda value: str(value))
def test_the_state_of_a_task_is_that_of_its_step_for_verbs_and_for_plain_sql(
    lawless_app: Stepwell, state: State, expected: TaskState
) -> None:
    tasks = Tasks(lawless_app)
    tasks.processes.queue("dependee")
    begun = ["Dispatched", "Running"]
    ways = {State.PENDING: [], State.RUNNING: begun, State.COMPLETED: [*begun, "Completed"],
            State.STOPPED: [*begun, "Stopped"]}  # fmt: skip
    for step in ways.get(state, [str(state)]):
        change(lawless_app, f"UPDATE steps SET state = '{step}', own_code_done_at = created_at")
    assert tasks.states() == {"dependee": expected}
    assert view_of(lawless_app) == {"dependee": expected}


def test_a_task_is_dead_while_its_step_is_running_under_a_lease_that_is_not_alive(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("dependee")
    with tasks.worker() as runner:
        tasks.claim(runner, "dependee")
        assert tasks.states() == {"dependee": "running"}
        clock.advance(3_600)
        assert tasks.states() == {"dependee": "dead"}
        assert app.step(tasks.step_of("dependee")).state is State.RUNNING  # dead is virtual
        change(app, "UPDATE steps_workers SET alive_until = '2999-01-01'")
        change(app, "UPDATE steps SET lease_deadline = '2999-01-01', changed_from = NULL")
        assert tasks.states() == view_of(app) == {"dependee": "running"}
        change(app, "UPDATE steps_workers SET alive_until = '2001-01-01'")
        assert tasks.states() == view_of(app) == {"dependee": "dead"}
        change(app, "DELETE FROM steps_workers")
        assert tasks.states() == view_of(app) == {"dependee": "dead"}
        tasks.processes.reschedule()
        assert tasks.states() == view_of(app) == {"dependee": "new"}


def test_a_task_that_ran_past_timeout_and_cooldown_is_dead_although_its_worker_lives(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("dependee")
    with tasks.worker() as runner:
        tasks.claim(runner, "dependee")
        clock.advance(60 + 5)  # the worker still has a margin to write the end
        runner.worker.heartbeat()
        assert tasks.states() == {"dependee": "running"}
        clock.advance(31)
        runner.worker.heartbeat()
        assert tasks.states() == {"dependee": "dead"}


def test_a_task_that_was_cancelled_is_running_until_its_process_has_ended(app: Stepwell) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("dependee")
    with tasks.worker() as runner:
        (claim,) = tasks.claim(runner, "dependee")
        app.cancel(claim.step_id, who="ada")
        assert tasks.states() == {"dependee": "running"}
        app._finisher.release_lease(claim)
        assert tasks.states() == view_of(app) == {"dependee": "error"}


def test_not_completed_is_pending_with_that_reason(app: Stepwell) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    tasks.processes.queue("both")
    app.run_until_idle()
    step = app.step(tasks.step_of("other"))
    assert (step.state, step.reason) == (State.PENDING, "not_completed")
    assert view_of(app) == tasks.states() == {"other": "not_completed", "dependee": "completed"}


def test_a_task_in_error_that_an_operator_retries_is_new(app: Stepwell) -> None:
    tasks = Tasks(app, max_error_tries=1)
    tasks.does["dependee"] = refuse
    tasks.processes.queue("dependee")
    app.run_until_idle()
    assert tasks.states() == {"dependee": "error"}
    app.retry(tasks.step_of("dependee"), who="ada")
    assert tasks.states() == {"dependee": "new"}
