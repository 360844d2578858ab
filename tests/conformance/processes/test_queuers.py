"""The queuer: what it is asked and notified of, and what its mistakes do to others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from stepwell import Stepwell
from stepwell.model.errors import DatabaseUnavailable
from stepwell.processes.beats import QueueBeat
from stepwell.processes.errors import TaskStateError
from stepwell.processes.main_process import MainProcess, Queuer, TaskFactory
from tests.conformance.processes.crystal import Tasks, refuse

ALONE = {
    "first": {"tasks": [{"class": "other"}]},
    "second": {"name": "the second", "tasks": [{"class": "dependee"}]},
    "third": {"tasks": [{"class": "dependent"}]},
}


class Recorder:
    """A queuer that records its calls; `answers` are what its callbacks return or raise."""

    def __init__(self, tasks: Tasks, names: list[Any]) -> None:
        self.tasks = tasks
        self.names = names
        self.calls: list[tuple[str, Any]] = []
        self.errors: list[Exception] = []
        self.answers: dict[tuple[str, str], Any] = {}
        self.factory: TaskFactory = tasks.processes.task_factory

    def get_next_main_processes(self) -> Iterator[Any]:
        for name in self.names:
            if isinstance(name, Exception):
                raise name
            is_name = isinstance(name, str)
            yield MainProcess.create(self.tasks.processes.config, self.factory, name, {"of": name}) if is_name else name

    def queueing_start(self, main_process: MainProcess) -> bool | None:
        return self._called("start", main_process)

    def queueing_stop(self, main_process: MainProcess) -> bool | None:
        return self._called("stop", main_process)

    def queueing_failed(self, main_process: MainProcess, error: Exception) -> None:
        self.errors.append(error)
        self._called("failed", main_process)

    def _called(self, what: str, process: Any) -> bool | None:
        self.calls.append((what, process.data["of"] if isinstance(process, MainProcess) else process))
        answer = self.answers.get((what, getattr(process, "key", "")), True)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer) if answer is not None else None


def beat(app: Stepwell, queuer: Queuer) -> float:
    engine = app.process_engine
    return QueueBeat(engine.queueing, engine.failures, queuer, 5.0).round(())


def test_a_beat_queues_what_the_queuer_returns_and_its_callbacks_get_the_data_back(app: Stepwell) -> None:
    tasks = Tasks(app, ALONE)
    queuer = Recorder(tasks, ["first", "the second"])
    assert isinstance(queuer, Queuer)
    assert beat(app, queuer) == 5.0
    assert queuer.calls == [
        ("start", "first"), ("stop", "first"), ("start", "the second"), ("stop", "the second"),
    ]  # fmt: skip
    assert tasks.states() == {"other": "new", "dependee": "new"}


@pytest.mark.parametrize(
    ("callback", "answer", "queued"),
    [
        ("start", False, False),
        ("start", RuntimeError("no"), False),
        ("start", None, True),  # nothing returned is no refusal
        ("stop", False, True),
        ("stop", RuntimeError("no"), True),
    ],
    ids=str,
)
def test_a_callback_that_returns_false_or_raises_harms_no_other_main_process(
    app: Stepwell, callback: str, answer: Any, queued: bool
) -> None:
    tasks = Tasks(app, ALONE)
    queuer = Recorder(tasks, ["first", "second", "third"])
    queuer.answers[callback, "second"] = answer
    beat(app, queuer)
    assert tasks.states() == {"other": "new", "dependent": "new"} | ({"dependee": "new"} if queued else {})
    fails = callback == "start" and isinstance(answer, Exception)
    assert queuer.errors == ([answer] if fails else [])
    assert [row.error for row in tasks.processes.failed_queueings()] == (["RuntimeError"] if fails else [])


def test_a_failed_queueing_notifies_its_queuer_with_a_task_state_error_and_leaves_the_others_queued(
    app: Stepwell,
) -> None:
    tasks = Tasks(app, ALONE)
    tasks.not_completed("other")
    queuer = Recorder(tasks, ["first", "second"])
    beat(app, queuer)
    app.run_until_idle()
    queuer.answers["failed", "first"] = RuntimeError("no")
    queuer.calls.clear()
    beat(app, queuer)
    assert queuer.calls == [("start", "first"), ("failed", "first"), ("start", "second"), ("stop", "second")]
    (error,) = queuer.errors
    assert isinstance(error, TaskStateError)
    assert (error.task_class, error.state, error.step_id) == ("other", "not_completed", tasks.step_of("other"))
    assert tasks.states() == {"other": "not_completed", "dependee": "new"}


def test_a_factory_that_raises_fails_only_its_own_main_process(app: Stepwell) -> None:
    tasks = Tasks(app, ALONE)
    queuer = Recorder(tasks, ["first", "second"])
    app.jobs.remove("other")
    beat(app, queuer)
    assert tasks.states() == {"dependee": "new"}
    (row,) = tasks.processes.failed_queueings("first")
    assert row.error == "UnknownAction"
    assert not isinstance(queuer.errors[0], TaskStateError)


def test_what_is_no_main_process_is_a_failed_queueing_and_the_others_are_queued(app: Stepwell) -> None:
    tasks = Tasks(app, ALONE)
    queuer = Recorder(tasks, [42, "second"])
    beat(app, queuer)
    assert queuer.calls[0] == ("failed", 42)
    assert tasks.states() == {"dependee": "new"}
    (row,) = tasks.processes.failed_queueings()
    assert row.message == "get_next_main_processes returned 42: make main processes with MainProcess.create"


def test_what_was_returned_before_the_queuer_raised_is_queued_and_the_next_beat_asks_again(app: Stepwell) -> None:
    tasks = Tasks(app, ALONE)
    queuer = Recorder(tasks, ["first", RuntimeError("no"), "second"])
    assert beat(app, queuer) == 5.0
    assert tasks.states() == {"other": "new"}
    queuer.names = ["second"]
    beat(app, queuer)
    assert tasks.states() == {"other": "new", "dependee": "new"}


def test_in_an_outage_the_queuer_is_notified_of_each_main_process_that_it_returned(
    app: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = Tasks(app, ALONE)
    queuer = Recorder(tasks, ["first", "second"])

    def down(process: MainProcess) -> None:
        raise DatabaseUnavailable("down")

    monkeypatch.setattr(app.process_engine.queueing, "queue", down)
    with pytest.raises(DatabaseUnavailable):  # the loop of the part waits and repeats the beat
        beat(app, queuer)
    assert queuer.calls == [("start", "first"), ("failed", "first"), ("failed", "second")]


def test_a_failed_queueing_is_a_row_until_the_main_process_is_queued_again(app: Stepwell) -> None:
    tasks = Tasks(app, ALONE)
    tasks.not_completed("other")
    beat(app, Recorder(tasks, ["first"]))
    app.run_until_idle()
    beat(app, Recorder(tasks, ["first", "second"]))
    (row,) = tasks.processes.failed_queueings()
    assert (row.main_process, row.error, row.task_class, row.task_state, row.step_id, row.resolved_at) == (
        "first", "TaskStateError", "other", "not_completed", tasks.step_of("other"), None,
    )  # fmt: skip
    tasks.processes.reschedule()
    beat(app, Recorder(tasks, ["first"]))
    (row,) = tasks.processes.failed_queueings()
    assert row.resolved_at is not None


def test_only_the_newest_failures_of_each_main_process_are_kept(app: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.processes.failures.KEPT", 3)
    tasks = Tasks(app, ALONE)
    app.jobs.remove("other")
    app.jobs.remove("dependent")
    for _ in range(5):
        beat(app, Recorder(tasks, ["first"]))
    beat(app, Recorder(tasks, ["third"]))
    assert len(tasks.processes.failed_queueings("first")) == 3
    assert len(tasks.processes.failed_queueings("third")) == 1


def test_explain_says_what_a_task_waits_for_and_why_its_main_process_was_not_queued(app: Stepwell) -> None:
    tasks = Tasks(app)
    tasks.not_completed("other")
    tasks.processes.queue("both")
    app.run_until_idle()
    with pytest.raises(TaskStateError):
        tasks.processes.queue("free")  # another main process with the same task
    explanation = app.explain(tasks.step_of("other"))
    assert "it waits for the reschedule beat" in explanation.summary
    assert "the queueing of main process free failed" in explanation.summary
    assert "stepwell heartbeat reschedule" in str(explanation)
    tasks.processes.reschedule()
    tasks.processes.queue("free")
    assert "failed" not in app.explain(tasks.step_of("other")).summary


def test_explain_says_which_dependee_a_dependent_waits_for(app: Stepwell) -> None:
    tasks = Tasks(app)
    tasks.processes.queue("pair")
    app.run_until_idle(slots=1)
    dependee = tasks.step_of("dependee")
    assert (
        f"a full run of it has to begin after the completion of dependee (step {dependee}, Completed)"
        in app.explain(tasks.step_of("dependent")).summary
    )


def test_log_lines_go_to_the_logger_of_the_configuration(app: Stepwell, caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks(app, ALONE)
    queuer = Recorder(tasks, ["first", "second"])
    queuer.answers["start", "first"] = ValueError("not today")
    tasks.processes.configure(tasks.processes.config, queuer=queuer, logger=logging.getLogger("mine"))
    with caplog.at_level(logging.INFO):
        tasks.processes.parts()[0].round(())
    assert [(record.name, record.getMessage()) for record in caplog.records if record.name == "mine"] == [
        ("mine", "main process first is not queued: ValueError: not today")
    ]


def test_a_direct_queueing_that_fails_raises_and_is_a_row_too(app: Stepwell) -> None:
    tasks = Tasks(app, ALONE)
    tasks.does["other"] = refuse
    app.jobs.remove("other")
    with pytest.raises(Exception, match="no job 'other'"):
        tasks.processes.queue("first")
    assert len(tasks.processes.failed_queueings("first")) == 1
