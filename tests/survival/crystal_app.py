"""The app that the heartbeats of these tests run: made of the environment, with a log of every run."""

from __future__ import annotations

import os
import time
from pathlib import Path

from stepwell import NOT_COMPLETED, Stepwell, current_step
from stepwell.processes.main_process import MainProcess

DATABASE, FOLDER, RUN_TIME = "STEPWELL_TEST_DATABASE", "STEPWELL_TEST_FOLDER", "STEPWELL_TEST_RUN_TIME"

_APPS: dict[int, Stepwell] = {}


def note(event: str) -> None:
    file = os.open(Path(os.environ[FOLDER]) / "run_log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{event}\n".encode())
    os.close(file)


def quick() -> None:
    note("quick")


def waits() -> None:
    """Runs until the test creates the file `go`."""
    note("waits")
    while not (Path(os.environ[FOLDER]) / "go").exists():
        time.sleep(0.01)
    note("waited")


def twice() -> object:
    """Completes in its second run."""
    step = current_step()
    if step.checkpointed is None:
        step.checkpoint(1)
        return NOT_COMPLETED
    return "done"


class Queuer:
    def __init__(self, app: Stepwell) -> None:
        self.app = app

    def get_next_main_processes(self) -> list[MainProcess]:
        processes = self.app.main_processes
        if processes.tasks():
            return []
        note("asked")
        return [MainProcess.create(processes.config, processes.task_factory, "all")]

    def queueing_start(self, main_process: MainProcess) -> None: ...

    def queueing_stop(self, main_process: MainProcess) -> None:
        note("queued")

    def queueing_failed(self, main_process: MainProcess, error: Exception) -> None:
        note(f"failed: {error}")


def make() -> Stepwell:
    app = _APPS[os.getpid()] = Stepwell(os.environ[DATABASE])
    for code in (quick, waits, twice):
        app.job()(code)
    task = {"timeout": 60, "cooldown": 0}
    app.main_processes.configure(
        {
            "max_execution_slots": 3,
            "sleep_time_seconds": 0.1,
            "run_time_seconds": float(os.environ[RUN_TIME]),
            "main_processes": {"all": {"tasks": [{"class": name} for name in ("quick", "waits", "twice")]}},
            "tasks": {name: {"class": name, **task} for name in ("quick", "waits", "twice")},
        },
        queuer=Queuer(app),
    )
    return app
