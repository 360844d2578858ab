"""`stepwell heartbeat queue|execute|reschedule` as cron starts them, and `stepwell up` instead: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwell import Stepwell
from tests.survival import crystal_app
from tests.survival.support import LEASE_SECONDS, ROOT, WAIT_SECONDS, descendants

pytestmark = pytest.mark.slow

LONG = 600.0  # a run time that no test waits for


class Crystal:
    """A database, and heartbeats on it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.app = Stepwell(url).open()
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, run_time: float = LONG) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            crystal_app.DATABASE: self.url,
            crystal_app.FOLDER: str(self.folder),
            crystal_app.RUN_TIME: str(run_time),
        }
        arguments = [sys.executable, "-m", "stepwell.cli", *command, "--app", "tests.survival.crystal_app:make"]
        with open(self.folder / f"{len(self.started)}.log", "wb") as log:
            process = subprocess.Popen(
                arguments, stdout=log, stderr=log, cwd=ROOT, env=environment, start_new_session=True
            )
        self.started.append(process)
        return process

    def beat(self, kind: str, *options: str, run_time: float = LONG) -> subprocess.Popen[bytes]:
        return self.start("heartbeat", kind, *options, run_time=run_time)

    def output(self, process: subprocess.Popen[bytes]) -> str:
        return (self.folder / f"{self.started.index(process)}.log").read_text()

    def states(self) -> dict[str, str]:
        return {task.task_class: task.state for task in self.app.main_processes.tasks()}

    def log(self) -> list[str]:
        file = self.folder / "run_log"
        return file.read_text().splitlines() if file.exists() else []

    def go(self) -> None:
        (self.folder / "go").touch()

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            outputs = [self.output(each) for each in self.started]
            assert time.monotonic() < deadline, f"{self.states()} {self.log()} {outputs}"
            time.sleep(0.05)

    def end(self) -> None:
        for process in self.started:
            pids = descendants(process.pid) if process.poll() is None else set()
            for pid in {*pids, process.pid} if process.poll() is None else pids:
                os.kill(pid, signal.SIGKILL)
            process.wait(WAIT_SECONDS)
        self.app.close()


@pytest.fixture
def crystal(shared_database_url: str, tmp_path: Path) -> Iterator[Crystal]:
    crystal = Crystal(shared_database_url, tmp_path)
    try:
        yield crystal
    finally:
        crystal.end()


COMPLETED = {"quick": "completed", "waits": "completed", "twice": "completed"}


def test_two_heartbeats_of_each_kind_at_once_do_all_the_work_once_and_exit_0_when_their_time_is_up(
    crystal: Crystal,
) -> None:
    """An executor whose time is up stays until its task has ended; cron starts the next ones meanwhile."""
    executors: list[subprocess.Popen[bytes]] = []
    while crystal.states() != {**COMPLETED, "waits": "running"}:
        others = [crystal.beat(kind, run_time=6.0) for kind in ("queue", "queue", "reschedule", "reschedule")]
        executors += [crystal.beat("execute", run_time=6.0) for _ in range(2)]
        for process in others:
            assert process.wait(WAIT_SECONDS) == 0, crystal.output(process)
            assert crystal.output(process).splitlines()[-1].startswith("Done")
        assert len(executors) < 8, "the tasks are not done in four minutes of cron"
    crystal.wait(lambda: sum(process.poll() is None for process in executors) == 1)  # the others wait for nothing
    crystal.go()
    for process in executors:
        assert process.wait(WAIT_SECONDS) == 0, crystal.output(process)
    assert crystal.states() == COMPLETED
    assert crystal.log().count("quick") == crystal.log().count("waits") == crystal.log().count("waited") == 1
    assert len(crystal.app.steps()) == 3


def test_an_executor_that_is_killed_leaves_a_dead_task_that_the_reschedule_beat_makes_new(crystal: Crystal) -> None:
    crystal.beat("queue")
    first = crystal.beat("execute", "--lease", str(LEASE_SECONDS))
    crystal.wait(lambda: "waits" in crystal.log())
    first.kill()
    first.wait(WAIT_SECONDS)
    crystal.wait(lambda: crystal.states().get("waits") == "dead")
    crystal.go()
    second = crystal.beat("execute", "--lease", str(LEASE_SECONDS))
    reschedule = crystal.beat("reschedule")
    crystal.wait(lambda: crystal.states() == COMPLETED)
    assert crystal.log().count("waits") == 2
    for process in (second, reschedule):
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0, crystal.output(process)


def test_up_queues_executes_and_reschedules_without_cron(crystal: Crystal) -> None:
    up = crystal.start("up", "--slots", "3")
    crystal.go()
    crystal.wait(lambda: crystal.states() == COMPLETED)
    up.send_signal(signal.SIGTERM)
    assert up.wait(WAIT_SECONDS) == 0, crystal.output(up)
    assert crystal.log().count("queued") == 1
