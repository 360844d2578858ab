"""The heartbeats as a program calls them: which kinds there are, how long each beats, and how it ends."""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Collection

import pytest

from stepwell import Stepwell
from stepwell.model.errors import StepwellError
from stepwell.processes.beats import HeartbeatRun
from stepwell.processes.errors import TaskStateError
from stepwell.processes.main_process import MainProcess
from stepwell.service.part import Part
from stepwell.store import Wake

HANG_SECONDS = 60.0


class Counting(Part):
    """A part that ends when it is allowed to, and records every request to stop."""

    name = "counting"

    def __init__(self, is_done: threading.Event) -> None:
        self._is_done = is_done
        self.rounds = 0
        self.began = threading.Event()
        self.stops: list[bool] = []
        self.stopped = threading.Semaphore(0)

    def round(self, wakes: Collection[Wake]) -> float:
        self.rounds += 1
        self.began.set()
        return 0.01

    def stop(self, *, at_once: bool = False) -> None:
        self.stops.append(at_once)
        self.stopped.release()

    def is_done(self) -> bool:
        return self._is_done.is_set()


def test_a_heartbeat_ends_by_itself_when_its_time_is_up() -> None:
    done = threading.Event()
    done.set()
    part = Counting(done)
    HeartbeatRun(lambda: [part], run_time_seconds=0.05).heartbeat()
    assert part.rounds >= 1
    assert part.stops == [False]


def test_the_end_of_the_time_does_not_cut_what_a_signal_before_it_waits_for() -> None:
    done = threading.Event()
    part = Counting(done)
    heartbeat = HeartbeatRun(lambda: [part], run_time_seconds=1.0)
    thread = threading.Thread(target=heartbeat.heartbeat, daemon=True)
    thread.start()
    assert part.began.wait(HANG_SECONDS)
    assert heartbeat._crew is not None
    heartbeat._crew.stop()  # what the handler of a signal calls
    assert part.stopped.acquire(timeout=HANG_SECONDS)
    assert part.stopped.acquire(timeout=HANG_SECONDS)  # the time is up, too
    done.set()
    thread.join(HANG_SECONDS)
    assert part.stops == [False, False]


def configured() -> Stepwell:
    app = Stepwell("sqlite://")

    @app.job()
    def sync() -> None: ...

    app.main_processes.configure(
        {
            "run_time_seconds": 0.3,
            "sleep_time_seconds": 0.05,
            "main_processes": {"nightly": {"tasks": [{"class": "sync"}]}},
            "tasks": {"sync": {"class": "sync", "timeout": 60, "cooldown": 5}},
        }
    )
    return app


class Once:
    """A queuer that returns one main process once."""

    def __init__(self, app: Stepwell) -> None:
        processes = app.main_processes
        self.left = [MainProcess.create(processes.config, processes.task_factory, "nightly", "data")]
        self.stopped: list[str] = []

    def get_next_main_processes(self) -> list[MainProcess]:
        left, self.left = self.left, []
        return left

    def queueing_start(self, main_process: MainProcess) -> bool:
        return True

    def queueing_stop(self, main_process: MainProcess) -> bool:
        self.stopped.append(main_process.data)
        return True

    def queueing_failed(self, main_process: MainProcess, error: Exception) -> None: ...


def test_a_controller_runs_the_heartbeat_of_each_kind_like_that_of_crystal() -> None:
    """`$crystal->getQueueHeartbeat($queuer)->heartbeat()` of the seed, and its `switch` over the kinds."""
    app = configured()
    queuer = Once(app)
    with app:
        assert app.main_processes.queue_heartbeat(queuer).heartbeat() == "1 main processes queued"
        assert queuer.stopped == ["data"]
        app.main_processes.heartbeat("execute", executor="thread").heartbeat()
        app.main_processes.heartbeat("reschedule").heartbeat()
        assert [task.state for task in app.main_processes.tasks()] == ["completed"]


def test_an_unknown_kind_of_heartbeat_is_refused_with_a_suggestion() -> None:
    with pytest.raises(StepwellError, match="unknown heartbeat 'excute'; did you mean execute"):
        configured().main_processes.heartbeat("excute")
    with pytest.raises(StepwellError, match="valid heartbeats: queue, execute, reschedule"):
        configured().main_processes.heartbeat("bogus")


def test_without_a_queuer_or_a_configuration_there_is_nothing_to_beat() -> None:
    with pytest.raises(StepwellError, match=r"pass one to app\.main_processes\.configure"):
        configured().main_processes.heartbeat("queue").heartbeat()
    app = Stepwell("sqlite://")
    with pytest.raises(StepwellError, match="this app has no main processes"):
        app.main_processes.heartbeat("execute")
    assert app.main_processes.parts() == []


def test_up_has_a_queue_beat_only_with_a_queuer() -> None:
    app = configured()
    assert [part.name for part in app.main_processes.parts()] == ["reschedule"]
    app.main_processes.configure(app.main_processes.config, queuer=Once(app), logger=logging.getLogger("mine"))
    assert [part.name for part in app.main_processes.parts()] == ["queue", "reschedule"]


def test_a_task_state_error_survives_the_way_to_another_process() -> None:
    error = TaskStateError("no", task_class="sync", part="1/4", state="dead", step_id=7)
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, TaskStateError)
    assert (str(copy), copy.task_class, copy.part, copy.state, copy.step_id) == ("no", "sync", "1/4", "dead", 7)


class ByAnotherName:
    """A factory whose classes are not the names of the jobs."""

    def __init__(self, app: Stepwell) -> None:
        self.app = app

    def create(self, task_class: str) -> object:
        return self.app.jobs["sync"]


def test_the_priority_of_a_class_is_the_weight_of_the_job_that_its_factory_returns() -> None:
    app = configured()
    task = {"timeout": 1, "cooldown": 1}
    app.main_processes.configure(
        {
            "priority_strategy": "DivideTotalValueEqually",
            "main_processes": {"m": {"tasks": [{"class": "App.Sync"}, {"class": "App.Other"}]}},
            "tasks": {
                "a": {"class": "App.Sync", "priority": 20, **task},
                "b": {"class": "App.Other", "priority": 5, **task},
            },
        },
        task_factory=ByAnotherName(app),  # type: ignore[arg-type]
    )
    with app:
        app.main_processes.apply_to_workers()
        assert app.jobs.weights()["sync"] == 25
        assert app.limits.all()["queue", "main-processes"] == 10


def test_a_worker_of_an_app_with_main_processes_serves_their_tasks() -> None:
    with configured() as app:
        assert app.parts.of_main_processes() != []
        app.worker()
        assert app.limits.all()["queue", "main-processes"] == 10


def test_an_app_that_has_not_used_main_processes_runs_no_part_of_them() -> None:
    with Stepwell("sqlite://") as app:
        assert app.parts.of_main_processes() == []
        assert "main_processes" not in vars(app)
