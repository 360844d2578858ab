"""Queueing main processes: what becomes of a task in each state, all or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import State, Stepwell
from stepwell.processes.beats import QueueBeat
from stepwell.processes.errors import TaskStateError
from stepwell.processes.main_process import MainProcess
from stepwell.testing import ManualClock
from tests.conformance.processes.crystal import Tasks


def test_a_new_task_stays_and_keeps_its_place(app: Stepwell) -> None:
    tasks = Tasks(app)
    first = tasks.processes.queue("both")
    assert len(first.new) == 2
    again = tasks.processes.queue("both")
    assert (again.new, sorted(again.kept)) == ([], sorted(first.new))
    assert len(app.steps()) == 2


def test_a_completed_task_and_one_in_error_are_succeeded_by_new_steps(app: Stepwell) -> None:
    tasks = Tasks(app, max_error_tries=1)

    def broken() -> None:
        raise ValueError("no")

    tasks.does["dependee"] = broken
    first = tasks.processes.queue("both")
    app.run_until_idle()
    assert tasks.states() == {"other": "completed", "dependee": "error"}
    second = tasks.processes.queue("both")
    assert len(second.new) == 2
    assert not set(second.new) & set(first.new)
    assert tasks.states() == {"other": "new", "dependee": "new"}


def test_errors_are_counted_and_the_last_try_is_an_error(app: Stepwell, clock: ManualClock) -> None:
    tasks = Tasks(app, max_error_tries=3)

    def broken() -> None:
        raise ValueError("no")

    tasks.does["other"] = broken
    tasks.processes.queue("both")
    for _ in range(10):
        app.run_until_idle()
        clock.advance(60)
    assert tasks.runs.count("other") == 3
    assert tasks.states()["other"] == "error"


def test_a_not_completed_task_fails_the_whole_queueing_until_it_is_rescheduled(
    app: Stepwell, clock: ManualClock
) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    tasks.processes.queue("both")
    app.run_until_idle()
    assert tasks.states() == {"other": "not_completed", "dependee": "completed"}
    with pytest.raises(
        TaskStateError, match=r"task 'other' .* is not_completed: it has to be rescheduled first"
    ) as caught:
        tasks.processes.queue("both")
    assert (caught.value.task_class, caught.value.state) == ("other", "not_completed")
    assert tasks.states()["dependee"] == "completed"  # rolled back
    tasks.processes.reschedule()
    assert tasks.states()["other"] == "new"
    assert tasks.processes.queue("both").kept == [tasks.step_of("other")]


def test_a_running_task_fails_the_queueing_and_rolls_it_back_unless_it_depends_on_another(app: Stepwell) -> None:
    tasks = Tasks(app)
    seen: list[Any] = []

    def queue_pair() -> None:
        seen.append(tasks.processes.queue("pair"))

    tasks.does["dependent"] = queue_pair

    def queue_again() -> None:
        with pytest.raises(TaskStateError, match=r"task 'other' .* is running: wait until it has ended"):
            tasks.processes.queue("both")
        seen.append(tasks.states()["dependee"])

    tasks.does["other"] = queue_again
    tasks.processes.queue("dependent")
    app.run_until_idle()
    assert seen[0].passed_over == [tasks.step_of("dependent")]
    assert len(seen[0].new) == 1
    tasks.processes.queue("both")
    app.run_until_idle()
    assert len(seen) == 2


def test_a_step_that_was_succeeded_cannot_be_retried(app: Stepwell) -> None:
    tasks = Tasks(app, max_error_tries=1)

    def broken() -> None:
        raise ValueError("no")

    tasks.does["other"] = broken
    tasks.processes.queue("both")
    app.run_until_idle()
    old = tasks.step_of("other")
    tasks.processes.queue("both")
    with pytest.raises(Exception, match="is no longer the current one of its task"):
        app.retry(old, who="ada")
    assert app.step(old).state is State.FAILED


def test_a_task_runs_in_the_parts_of_its_entities(app: Stepwell) -> None:
    found: list[str] = []

    @app.job()
    def sync() -> None:
        from stepwell import current_step

        found.append(current_step().partition.characters)

    processes = app.main_processes.configure(
        {
            "main_processes": {"nightly": {"tasks": [{"class": "sync"}]}},
            "tasks": {"sync": {"class": "sync", "timeout": 60, "cooldown": 5, "range_strategy": "HashRange",
                               "resources": 3, "entity_uid": "customers.id"}},
        }
    )  # fmt: skip
    processes.queue("nightly")
    app.run_until_idle()
    assert sorted(found) == ["012345", "6789a", "bcdef"]
    assert [task.part for task in processes.tasks()] == ["1/3", "2/3", "3/3"]


class Recorder:
    """A queuer that records what it is told; `answers` are what its callbacks return or raise."""

    def __init__(self, tasks: Tasks, names: list[str]) -> None:
        self.tasks = tasks
        self.names = names
        self.calls: list[tuple[str, Any]] = []
        self.errors: list[Exception] = []
        self.answers: dict[tuple[str, str], Any] = {}

    def get_next_main_processes(self) -> list[MainProcess]:
        processes = self.tasks.processes
        return [MainProcess.create(processes.config, processes.task_factory, name, {"of": name}) for name in self.names]

    def queueing_start(self, main_process: MainProcess) -> bool:
        return self._called("start", main_process)

    def queueing_stop(self, main_process: MainProcess) -> bool:
        return self._called("stop", main_process)

    def queueing_failed(self, main_process: MainProcess, error: Exception) -> None:
        self.errors.append(error)
        self._called("failed", main_process)

    def _called(self, what: str, process: MainProcess) -> bool:
        self.calls.append((what, process.data["of"]))
        answer = self.answers.get((what, process.key), True)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)


def beat(app: Stepwell, queuer: Recorder) -> None:
    engine = app.process_engine
    QueueBeat(engine.queueing, engine.failures, queuer, 5.0).round(())


@pytest.mark.parametrize(
    ("callback", "answer"),
    [("start", False), ("start", RuntimeError("no")), ("stop", False), ("stop", RuntimeError("no"))],
)
def test_a_callback_that_refuses_or_raises_harms_no_other_main_process(
    app: Stepwell, callback: str, answer: Any
) -> None:
    tasks = Tasks(app)
    queuer = Recorder(tasks, ["dependee", "both"])
    queuer.answers[callback, "dependee"] = answer
    beat(app, queuer)
    assert ("stop", "both") in queuer.calls
    assert tasks.states() == {"other": "new", "dependee": "new"}


def test_a_failed_queueing_is_a_row_and_its_queuer_is_told_with_a_task_state_error(app: Stepwell) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    queuer = Recorder(tasks, ["both", "dependee"])
    beat(app, queuer)
    app.run_until_idle()
    queuer.answers["failed", "both"] = RuntimeError("no")
    queuer.calls.clear()
    beat(app, queuer)
    assert queuer.calls == [("start", "both"), ("failed", "both"), ("start", "dependee"), ("stop", "dependee")]
    assert isinstance(queuer.errors[0], TaskStateError)
    (row,) = tasks.processes.failed_queueings()
    assert (row.main_process, row.error, row.task_class, row.task_state) == (
        "both", "TaskStateError", "other", "not_completed",
    )  # fmt: skip
    summary = app.explain(tasks.step_of("other")).summary
    assert "waits for the reschedule beat" in summary
    assert "the queueing of main process both failed" in summary


def test_a_factory_that_raises_fails_only_its_own_main_process(app: Stepwell) -> None:
    tasks = Tasks(app)
    queuer = Recorder(tasks, ["both", "dependee"])
    app.jobs.remove("other")
    beat(app, queuer)
    assert tasks.states() == {"dependee": "new"}
    (row,) = tasks.processes.failed_queueings("both")
    assert row.error == "UnknownAction"
