"""dependOn: a task is complete only if a full run of it began after its dependees had completed."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import NOT_COMPLETED, Skip, State, Stepwell, current_step
from stepwell.run.ending import Ending
from stepwell.testing import ManualClock
from tests.conformance.processes.crystal import Tasks, refuse
from tests.conformance.support.engine import returned


def test_a_dependent_that_began_before_its_dependee_completed_runs_again(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("pair")  # the dependent is first in line
    app.run_until_idle(slots=1)
    assert tasks.states() == {"dependent": "not_completed", "dependee": "completed"}
    step = app.step(tasks.step_of("dependent"))
    assert (step.state, step.reason) == (State.PENDING, "not_completed")
    clock.advance(3600)
    assert app.run_until_idle() == 0  # it waits for the reschedule beat, not for its cooldown
    tasks.settle(clock)
    assert tasks.states() == {"dependent": "completed", "dependee": "completed"}
    assert tasks.runs == ["dependent", "dependee", "dependent"]


def test_a_dependent_that_began_after_it_is_complete(app: Stepwell) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("dependee")
    app.run_until_idle()
    tasks.processes.queue("dependent")
    app.run_until_idle()
    assert tasks.states() == {"dependent": "completed", "dependee": "completed"}


def test_a_dependee_in_error_does_not_hold_it(app: Stepwell) -> None:
    tasks = Tasks(app, max_error_tries=1)
    tasks.does["dependee"] = refuse
    tasks.processes.queue("dependee")
    app.run_until_idle()
    tasks.processes.queue("dependent")
    app.run_until_idle()
    assert tasks.states() == {"dependent": "completed", "dependee": "error"}


def test_when_a_dependee_completes_later_its_completed_dependent_runs_again(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("dependent")
    app.run_until_idle()
    assert tasks.states() == {"dependent": "completed"}  # there was nothing to wait for
    before = tasks.step_of("dependent")
    tasks.processes.queue("dependee")
    app.run_until_idle()
    assert tasks.states() == {"dependent": "not_completed", "dependee": "completed"}
    assert tasks.step_of("dependent") != before
    assert app.step(before).state is State.COMPLETED
    tasks.settle(clock)
    assert tasks.states() == {"dependent": "completed", "dependee": "completed"}
    assert tasks.runs == ["dependent", "dependee", "dependent"]


def test_an_operator_who_completes_the_dependee_lets_the_dependent_run_again(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app, max_error_tries=1)
    tasks.does["dependee"] = refuse
    tasks.processes.queue("dependee")
    app.run_until_idle()
    tasks.processes.queue("dependent")
    app.run_until_idle()
    app.complete(tasks.step_of("dependee"), who="ada")
    assert tasks.states() == {"dependent": "not_completed", "dependee": "completed"}
    tasks.settle(clock)
    assert tasks.states() == {"dependent": "completed", "dependee": "completed"}


def test_runs_that_end_without_completing_have_no_limit_unless_one_is_configured(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    tasks.processes.queue("both")
    for _ in range(25):
        tasks.settle(clock)
        if len(tasks.runs) > 30:
            break
    assert tasks.runs.count("other") > 25
    assert tasks.states()["other"] in ("new", "not_completed")


def test_a_configured_limit_of_runs_without_completion_is_an_error(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app, max_not_completed=2)
    tasks.not_completed("other")
    tasks.processes.queue("both")
    tasks.settle(clock)
    assert tasks.runs.count("other") == 3
    assert tasks.states()["other"] == "error"


def test_what_came_first_is_decided_by_the_history_and_not_by_a_clock(app: Stepwell, clock: ManualClock) -> None:
    """Everything here happens in the same microsecond."""
    now = clock.now()
    tasks = Tasks(app)
    tasks.processes.queue("pair")
    with tasks.worker() as runner:
        dependee, dependent = tasks.claim(runner, "dependee", "dependent")
        returned(app._finisher, dependee, None)
        returned(app._finisher, dependent, None)
    assert tasks.states() == {"dependee": "completed", "dependent": "not_completed"}
    tasks.processes.queue("dependee")
    app.run_until_idle()
    clock.advance(10)  # the cooldown
    tasks.processes.reschedule()
    assert app.run_until_idle() == 1
    assert tasks.states() == {"dependee": "completed", "dependent": "completed"}
    completed = app.step(dependee.step_id).completed_at
    started = app.history(dependent.step_id)[2].at
    assert completed == started == now


@pytest.mark.parametrize("unfinished", ["new", "running", "not_completed"])
def test_a_dependee_that_is_not_completed_yet_holds_its_dependent(app: Stepwell, unfinished: str) -> None:
    tasks = Tasks(app)
    tasks.not_completed("dependee")
    tasks.processes.queue("pair")
    with tasks.worker() as runner:
        if unfinished == "new":
            dependent = _claim_only(tasks, runner, "dependent")
        else:
            dependee, dependent = tasks.claim(runner, "dependee", "dependent")
            if unfinished == "not_completed":
                app._finisher.write(dependee, Ending(verb="not_completed", limit=20))
        returned(app._finisher, dependent, None)
        assert tasks.states()["dependee"] == unfinished
        assert tasks.states()["dependent"] == "not_completed"


def _claim_only(tasks: Tasks, runner: Any, name: str) -> Any:
    """Claim one task; it is the first in line."""
    tasks.app.dispatcher().run_until_quiet()
    (claim,) = runner.claim(1)
    assert claim.step.label == name
    return claim


def test_all_parts_of_a_dependee_have_to_complete(app: Stepwell, clock: ManualClock) -> None:
    left = {3}

    @app.job()
    def sync() -> object:
        return NOT_COMPLETED if current_step().partition.number in left else None

    @app.job()
    def report() -> None: ...

    task = {"timeout": 60, "cooldown": 5}
    hashed = {"range_strategy": "HashRange", "resources": 3, "entity_uid": "customers.id"}
    processes = app.main_processes.configure(
        {
            "main_processes": {"nightly": {"tasks": [{"class": "sync"}, {"class": "report", "depend_on": "sync"}]}},
            "tasks": {"sync": {"class": "sync", **task, **hashed}, "report": {"class": "report", **task}},
        }
    )

    def states() -> list[str]:
        return [task.state for task in sorted(processes.tasks(), key=lambda task: (task.task_class, task.part))]

    processes.queue("nightly")
    app.run_until_idle(slots=1)
    assert states() == ["not_completed", "completed", "completed", "not_completed"]
    left.clear()
    for _ in range(3):
        clock.advance(10)
        processes.reschedule()
        app.run_until_idle(slots=1)
    assert states() == ["completed", "completed", "completed", "completed"]


def test_a_dependent_that_is_skipped_too_early_runs_again(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app)

    def skip() -> None:
        raise Skip("nothing to do")

    tasks.does["dependent"] = skip
    tasks.processes.queue("pair")
    app.run_until_idle(slots=1)
    assert tasks.states() == {"dependent": "not_completed", "dependee": "completed"}
    tasks.settle(clock)
    assert tasks.states() == {"dependent": "completed", "dependee": "completed"}


def test_a_dependent_with_children_that_completed_too_early_runs_again_in_a_new_step(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app)
    children: list[int] = []

    @app.job()
    def child() -> None:
        children.append(current_step().id)

    tasks.does["dependent"] = lambda: current_step().children(child.draft())
    tasks.processes.queue("pair")
    first = tasks.step_of("dependent")
    app.run_until_idle(slots=1)
    assert app.step(first).state is State.COMPLETED
    assert tasks.states() == {"dependent": "not_completed", "dependee": "completed"}
    assert tasks.step_of("dependent") != first
    tasks.settle(clock)
    assert tasks.states() == {"dependent": "completed", "dependee": "completed"}
    assert len(children) == 2


def test_running_again_counts_neither_as_an_error_nor_as_a_run_without_completion(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app, max_error_tries=1, max_not_completed=0)
    tasks.processes.queue("pair")
    with tasks.worker() as runner:
        for _ in range(4):  # the dependee is still new, and the dependent is always first in line
            returned(app._finisher, _claim_only(tasks, runner, "dependent"), None)
            assert tasks.states() == {"dependent": "not_completed", "dependee": "new"}
            tasks.processes.reschedule()
            clock.advance(10)
            runner.worker.heartbeat()


def test_a_step_that_takes_the_place_of_a_completed_one_has_its_settings(app: Stepwell) -> None:
    tasks = Tasks(app)

    @app.job()
    def count(days: int) -> None: ...

    class Factory:
        def create(self, task_class: str) -> Any:
            return count.options(priority="high", concurrency_key="k", concurrency_limit=3).draft(days=7)

    tasks.processes.queue("dependent", task_factory=Factory())
    first = app.step(tasks.step_of("dependent"))
    app.run_until_idle()
    tasks.processes.queue("dependee")
    app.run_until_idle()
    second = app.step(tasks.step_of("dependent"))
    assert second.id != first.id
    for name in ("action", "arguments", "label", "queue", "priority", "max_retries", "timeout", "cooldown",
                 "concurrency_key", "concurrency_limit", "relatable_type", "relatable_id", "belongs_to"):  # fmt: skip
        assert getattr(second, name) == getattr(first, name), name


def test_a_queueing_without_the_dependency_ends_it(app: Stepwell) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("dependent")
    app.run_until_idle()
    tasks.processes.queue("free")
    app.run_until_idle()
    tasks.processes.queue("dependee")
    app.run_until_idle()
    assert tasks.states()["dependent"] == "completed"


def test_a_chain_of_dependents_completes_in_its_order(app: Stepwell, clock: ManualClock) -> None:
    chain = [{"class": "other", "depend_on": "dependent"}, {"class": "dependent", "depend_on": ["dependee"]},
             {"class": "dependee"}]  # fmt: skip
    tasks = Tasks(app, {"chain": {"tasks": chain}})
    tasks.processes.queue("chain")
    tasks.settle(clock)
    assert set(tasks.states().values()) == {"completed"}
    last = {name: len(tasks.runs) - 1 - tasks.runs[::-1].index(name) for name in ("dependee", "dependent", "other")}
    assert last["dependee"] < last["dependent"] < last["other"]
