"""The app that the workers of these tests run: jobs that misbehave in every way, and a log of every run.

`make` builds it from the environment, in the worker and in each of its slots. `STEPWELL_TEST_FAILPOINT` names the point
at which the first worker that reaches it is killed: see `failpoints`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from stepwell import NOT_COMPLETED, Job, NewStep, Retry, StepRef, Stepwell, StepwellError, current_step
from stepwell.store import database
from stepwell.store.sqlite import connections as sqlite_connections
from tests.survival import failpoints

DATABASE = "STEPWELL_TEST_DATABASE"
FOLDER = "STEPWELL_TEST_FOLDER"
PATIENCE = "STEPWELL_TEST_PATIENCE"  # how many seconds a worker waits for the lock of SQLite; unset: as usual

_APPS: dict[int, Stepwell] = {}


def folder() -> Path:
    return Path(os.environ[FOLDER])


def note(event: str, **facts: Any) -> None:
    """Append a line to the run log, atomically; it survives the death of the process."""
    step = current_step()
    facts = {"token": step._facts.lease_token, "pid": os.getpid(), "at": f"{time.monotonic():.4f}", **facts}
    line = " ".join([event, str(step.label), *(f"{name}={value}" for name, value in facts.items())])
    file = os.open(folder() / "run_log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode() + b"\n")
    os.close(file)


def make() -> Stepwell:
    app = _APPS[os.getpid()] = Stepwell(os.environ[DATABASE])
    define(app)
    if PATIENCE in os.environ:
        for module, name in ((sqlite_connections, "BUSY_SECONDS"), (database, "CONFLICT_SECONDS")):
            setattr(module, name, float(os.environ[PATIENCE]))
    failpoints.arm(folder())
    return app


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def define(app: Stepwell) -> None:
    app.job(name="act", retries=0)(act)
    app.job(name="act_async", retries=0)(act_async)
    app.job(name="block_the_loop", retries=0)(block_the_loop)
    app.job(name="exit_in_a_task", retries=0)(exit_in_a_task)
    app.job(name="create_a_child_by_number", retries=0)(create_a_child_by_number)
    app.job(name="three_stages", retries=0)(ThreeStages)


def act(behaviour: str = "", seconds: float = 0.0, go: str = "") -> Any:
    """Behave in the given way; `go` names a file to wait for."""
    note("started")
    result = _BEHAVIOURS[behaviour](seconds, go) if behaviour else None
    note("ended")
    return result


async def act_async(seconds: float = 0.0, go: str = "") -> str:
    note("started")
    while not (folder() / go).exists():
        await asyncio.sleep(0.01)
    note("ended")
    return "awaited"


async def block_the_loop(go: str) -> None:
    note("started")
    _wait(0.0, go)
    note("ended")


async def exit_in_a_task() -> None:
    async def leave() -> None:
        sys.exit(3)

    note("started")
    await asyncio.create_task(leave())


async def create_a_child_by_number() -> None:
    step = current_step()
    folder_app().enqueue("act", label=f"child of {step.label}", parent=step.id)
    if step.retries == 0:
        raise ValueError("once more")


class ThreeStages(Job):
    """Its `compute` creates a child; its `complete` may wait."""

    def __init__(self, go: str = "") -> None:
        self.go = go

    def compute(self) -> str:
        note("computed")
        self.step.children(NewStep(action="act", label=f"child of {self.step.label}"))
        return "computed"

    def complete(self) -> None:
        note("completes")
        if self.go:
            _wait(0.0, self.go)


def _wait(seconds: float, go: str) -> str:
    while not (folder() / go).exists():
        time.sleep(0.01)
    return "waited"


def _wait_cooperatively(seconds: float, go: str) -> Any:
    """Like well-behaved code: checks the timeout and the cancel request."""
    step = current_step()
    while not step.timeout_reached and not step.cancel_requested:
        time.sleep(0.01)
    note("noticed", timeout=step.timeout_reached, cancel=step.cancel_requested)
    return NOT_COMPLETED


def _hold_the_gil(seconds: float, go: str) -> None:
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def _ignore_exceptions(seconds: float, go: str) -> None:
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            continue


def _exhaust_memory(seconds: float, go: str) -> None:
    allocated = []
    while True:
        allocated.append(bytearray(16 << 20))


def _fork_and_leave(seconds: float, go: str) -> int:
    """Start a child in the same process group that outlives the run."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid


def _fork_a_copy(seconds: float, go: str) -> int:
    """The copy keeps every file open that the process had open."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    return child


def _fork_and_both_return(seconds: float, go: str) -> str:
    """The classic mistake: the forked copy continues as if it were the slot itself."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return "the slot"
    return "the copy"


def _close_stdout(seconds: float, go: str) -> str:
    sys.stdout.close()
    sys.stderr = None
    return "closed"


def _die_mid_message(seconds: float, go: str) -> None:
    """Write half a message into the pipe, which a forked copy keeps open: there is no end of file."""
    channel: Any = current_step()._channel
    if os.fork() == 0:
        time.sleep(600)
    os.write(channel._connection.fileno(), struct.pack("!i", 1_000_000) + b"half")
    os._exit(7)


def _send_garbage(seconds: float, go: str) -> None:
    channel: Any = current_step()._channel
    os.write(channel._connection.fileno(), struct.pack("!i", 4) + b"\xc1\xc1\xc1\xc1")
    time.sleep(600)


def _raise_an_unwritable_retry(seconds: float, go: str) -> None:
    error = Retry("when?")
    error.at = object()  # type: ignore[assignment]
    raise error


def _log_from_a_fork(seconds: float, go: str) -> int:
    """A forked copy of the process cannot write to the step's log; the process itself can."""
    child = os.fork()
    if child == 0:
        try:
            current_step().log("from the copy")
        except StepwellError:
            os._exit(5)
        os._exit(0)
    current_step().log("from the slot")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _create_children_in_threads(seconds: float, go: str) -> None:
    step = current_step()
    with ThreadPoolExecutor(2) as threads:
        parents: tuple[StepRef | int, ...] = (step.ref, step.id)
        for number, parent in enumerate(parents):
            draft = NewStep(action="act", label=f"child {number} of {step.label}", parent=parent)
            threads.submit(folder_app().enqueue_many, [draft]).result()
    if step.retries == 0:
        raise ValueError("once more")


def folder_app() -> Stepwell:
    """The app that runs the job: its threads create children through it."""
    return _APPS[os.getpid()]


def _leave_a_thread(seconds: float, go: str) -> None:
    step = current_step()

    def keep_writing() -> None:
        while True:
            time.sleep(0.002)
            with suppress(BaseException):
                step.log("from a leftover thread")
                step.progress(13)
                step.checkpoint("from a leftover thread")

    threading.Thread(target=keep_writing, daemon=True).start()


def _have_children_of_its_own(seconds: float, go: str) -> list[int]:
    with ProcessPoolExecutor(1) as processes:
        return list(processes.map(abs, [-1, 2, -3]))


def _return_an_object(seconds: float, go: str) -> object:
    return object()


def _raise(error: BaseException) -> Any:
    raise error


def _read_its_schedule(seconds: float, go: str) -> str:
    run = current_step().schedule
    assert run is not None
    return f"{run.name} {run.kind}"


_BEHAVIOURS: dict[str, Any] = {
    "read its schedule": _read_its_schedule,
    "sys.exit": lambda seconds, go: sys.exit(3),
    "os._exit": lambda seconds, go: os._exit(7),
    "kill": lambda seconds, go: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda seconds, go: ctypes.string_at(0),
    "interrupt": lambda seconds, go: _raise(KeyboardInterrupt()),
    "unprintable": lambda seconds, go: _raise(Unprintable()),
    "return an object": _return_an_object,
    "create children in threads": _create_children_in_threads,
    "leave a thread": _leave_a_thread,
    "have children of its own": _have_children_of_its_own,
    "sleep": lambda seconds, go: time.sleep(seconds),
    "wait": _wait,
    "wait cooperatively": _wait_cooperatively,
    "not completed": lambda seconds, go: NOT_COMPLETED,
    "hold the gil": _hold_the_gil,
    "ignore exceptions": _ignore_exceptions,
    "exhaust memory": _exhaust_memory,
    "die mid-message": _die_mid_message,
    "send garbage": _send_garbage,
    "raise an unwritable retry": _raise_an_unwritable_retry,
    "log from a fork": _log_from_a_fork,
    "fork and leave": _fork_and_leave,
    "fork a copy": _fork_a_copy,
    "fork and both return": _fork_and_both_return,
    "close stdout": _close_stdout,
}
