"""What the reschedule beat changes, and what happens to the same tasks without it."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import NOT_COMPLETED, State, Stepwell, current_step
from stepwell.model.task_states import TaskState
from stepwell.run.ending import Ending
from stepwell.testing import ManualClock
from tests.conformance.processes.crystal import Tasks

WAITING: list[TaskState] = ["dead", "not_completed"]


@pytest.mark.parametrize("state", WAITING)
def test_without_the_beat_a_task_stays_as_it_is_whatever_else_runs(
    app: Stepwell, clock: ManualClock, state: TaskState
) -> None:
    tasks = Tasks(app)
    with tasks.brought_to(state, "other", "both", clock):
        step = tasks.step_of("other")
        for _ in range(3):
            clock.advance(3_600)
            app.reaper().round()
            app.dispatch_once()
            assert app.run_until_idle() <= 1  # the task beside it
        assert tasks.states()["other"] == state
        assert tasks.step_of("other") == step
        assert tasks.runs.count("other") == (state == "not_completed")


@pytest.mark.parametrize("state", WAITING)
def test_the_beat_makes_it_new_and_it_runs_again(app: Stepwell, clock: ManualClock, state: TaskState) -> None:
    tasks = Tasks(app)
    with tasks.brought_to(state, "other", "both", clock):
        step = tasks.step_of("other")
        tasks.processes.reschedule()
        assert tasks.states()["other"] == "new"
        assert tasks.step_of("other") == step  # the same row: it keeps its history
        tasks.does.clear()
        clock.advance(60)
        app.run_until_idle()
        assert tasks.states()["other"] == "completed"


@pytest.mark.parametrize("state", ["new", "running", "error", "completed"])
def test_the_beat_leaves_a_task_in_any_other_state_alone(app: Stepwell, clock: ManualClock, state: TaskState) -> None:
    tasks = Tasks(app, max_error_tries=1)
    with tasks.brought_to(state, "other", "both", clock):
        before = app.history(tasks.step_of("other"))
        tasks.processes.reschedule()
        assert tasks.states()["other"] == state
        assert app.history(tasks.step_of("other")) == before


def test_what_is_left_of_the_cooldown_still_passes(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    tasks.processes.queue("both")
    app.run_until_idle()
    clock.advance(2)
    tasks.processes.reschedule()
    assert app.run_until_idle() == 0
    clock.advance(2.9)
    assert app.run_until_idle() == 0
    clock.advance(0.1)
    assert app.run_until_idle() == 1


def test_no_other_action_lets_a_not_completed_task_run(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    tasks.processes.queue("both")
    app.run_until_idle()
    step = tasks.step_of("other")
    app.pause_workflow(step, who="ada")
    app.run_until_idle()
    app.resume_workflow(step, who="ada")
    app.reset_attempts(step, who="ada")
    assert app.sweep() == []
    clock.advance(3_600)
    assert app.run_until_idle() == 0
    assert tasks.states()["other"] == "not_completed"


def test_a_task_that_is_rescheduled_while_its_workflow_is_paused_runs_after_the_pause(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    tasks.processes.queue("both")
    app.run_until_idle()
    step = tasks.step_of("other")
    app.pause_workflow(step, who="ada")
    tasks.processes.reschedule()
    clock.advance(3_600)
    assert app.run_until_idle() == 0
    tasks.does.clear()
    app.resume_workflow(step, who="ada")
    assert app.run_until_idle() == 1
    assert tasks.states()["other"] == "completed"


def test_a_dead_task_keeps_its_execution_slot_until_it_is_rescheduled(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app, max_execution_slots=1)
    tasks.processes.apply_to_workers()
    tasks.processes.queue("both")
    with tasks.worker() as runner:
        tasks.claim(runner, "other")
        clock.advance(3_600)
        assert tasks.states() == {"other": "dead", "dependee": "new"}
        assert app.run_until_idle() == 0
        tasks.processes.reschedule()
        assert app.run_until_idle() == 2
    assert tasks.states() == {"other": "completed", "dependee": "completed"}


def test_deaths_have_no_limit_unless_one_is_configured(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("dependee")
    for _ in range(6):
        with tasks.worker() as runner:
            tasks.claim(runner, "dependee")
            clock.advance(3_600)
            tasks.processes.reschedule()
            assert tasks.states() == {"dependee": "new"}
        clock.advance(3_600)


def test_a_configured_limit_of_deaths_is_an_error(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app, max_rescues=1)
    tasks.processes.queue("dependee")
    for expected in ("new", "error"):
        with tasks.worker() as runner:
            tasks.claim(runner, "dependee")
            clock.advance(3_600)
            tasks.processes.reschedule()
            assert tasks.states() == {"dependee": expected}
        clock.advance(3_600)
    assert app.step(tasks.step_of("dependee")).reason == "poison"


@pytest.mark.parametrize(("configured", "expected"), [(None, "new"), (0, "error")])
def test_a_death_that_the_worker_has_seen_counts_by_the_same_limit(
    app: Stepwell, configured: int | None, expected: str
) -> None:
    settings: dict[str, Any] = {} if configured is None else {"max_rescues": configured}
    tasks = Tasks(app, **settings)
    tasks.processes.queue("dependee")
    with tasks.worker() as runner:
        (claim,) = tasks.claim(runner, "dependee")
        app._finisher.write(claim, Ending(verb="rescue", limit=0, error="its process died"))
    assert tasks.states() == {"dependee": expected}


def test_a_run_that_exits_or_is_cut_is_not_completed(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)

    def leave() -> None:
        raise SystemExit(0)

    tasks.does["other"] = leave
    tasks.does["dependee"] = lambda: clock.advance(60 + 5 + 1)
    tasks.processes.queue("both")
    app.run_until_idle()
    assert tasks.states() == {"other": "not_completed", "dependee": "not_completed"}


def test_the_timeout_is_seen_by_the_task_so_that_it_can_leave_gracefully(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    seen: list[bool] = []

    def work() -> object:
        seen.append(current_step().timeout_reached)
        clock.advance(61)
        seen.append(current_step().timeout_reached)
        return NOT_COMPLETED

    tasks.does["dependee"] = work
    tasks.processes.queue("dependee")
    app.run_until_idle()
    assert seen == [False, True]
    assert tasks.states() == {"dependee": "not_completed"}


def test_the_beats_of_two_processes_reschedule_each_task_once(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    with tasks.brought_to("not_completed", "other", "both", clock):
        first, second = app.process_engine.rescheduler(5), app.process_engine.rescheduler(5)
        assert first.round().cleared == [tasks.step_of("other")]
        assert second.round().cleared == []
    assert app.step(tasks.step_of("other")).state is State.PENDING


def test_explain_of_a_dead_task_names_the_reschedule_beat_and_not_the_reaper(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("both")
    with tasks.worker() as runner:
        tasks.claim(runner, "other")
        clock.advance(20)
        silent = app.explain(tasks.step_of("other")).summary
        clock.advance(3_600)
        dead = app.explain(tasks.step_of("other")).summary
    assert "its task is then dead, until the reschedule beat makes it new" in silent
    assert "its task is dead until the reschedule beat makes it new" in dead
    assert "reaper" not in silent + dead
