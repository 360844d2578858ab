"""The worker's heartbeat, written by something that no job can block.

Where jobs run in processes of their own, a thread of the worker will do. Where they share its process, one that holds
the GIL would silence such a thread: a small second process writes it, as long as the first exists and is not stopped.
Between two heartbeats lies real time, whatever clock was injected: it is other processes that wait for them.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Final

from stepwell.model.clock import SystemClock
from stepwell.model.errors import StepwellError
from stepwell.run.worker_row import WorkerRow, write_heartbeat
from stepwell.service import signals
from stepwell.store import open_database

_LOGGER: Final = logging.getLogger("stepwell.worker")

HEARTBEATS_PER_LEASE: Final = 3  # a worker that misses one or two is not taken for dead
STOP_SECONDS: Final = 2.0


class Heartbeat(ABC):
    """Written at intervals, from `start` to `stop`."""

    @abstractmethod
    def start(self, worker: WorkerRow) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def ensure_running(self, worker: WorkerRow) -> None:
        """Called now and then: should anything have ended it, it is started again."""
        return


class ThreadHeartbeat(Heartbeat):
    """For a worker whose process runs no job."""

    def start(self, worker: WorkerRow) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(worker,), name="stepwell-heartbeat", daemon=True)
        self._thread.start()

    def _run(self, worker: WorkerRow) -> None:
        pause = worker.alive_seconds / HEARTBEATS_PER_LEASE
        while not self._stop.wait(pause):
            try:
                worker.heartbeat()
            except Exception as error:
                _LOGGER.warning("cannot write the heartbeat: %s", error)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class ProcessHeartbeat(Heartbeat):
    """For a worker that runs jobs in its own process."""

    def __init__(self, url: str) -> None:
        self._url = url

    def start(self, worker: WorkerRow) -> None:
        command = [sys.executable, "-c", "from stepwell.run.heartbeat import main; main()"]
        # Through the pipe, because everyone on the machine can read arguments. It ends when the pipe does.
        with signals.blocked():
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        assert self._process.stdin is not None
        task = {"url": self._url, "worker": worker.id, "alive": worker.alive_seconds, "pid": os.getpid()}
        with suppress(OSError):  # it has died already: `ensure_running` notices
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()

    def stop(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:  # it waits for a database that does not answer
            self._process.kill()
            self._process.wait()

    def ensure_running(self, worker: WorkerRow) -> None:
        if self._process.poll() is not None:
            _LOGGER.warning("the process that writes the heartbeat has ended; starting another")
            self.stop()
            self.start(worker)


def main() -> None:
    """The second process."""
    task = json.loads(sys.stdin.buffer.readline())
    gone = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.buffer.read()
        gone.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    database = None
    # The end of the file is the end of the worker; but what that forked may keep it open.
    while not gone.is_set() and os.getppid() == task["pid"]:
        try:
            database = database or open_database(task["url"], SystemClock())
            if not is_stopped(task["pid"]):
                write_heartbeat(database, task["worker"], task["alive"])
        except StepwellError as error:
            _LOGGER.warning("cannot write the heartbeat: %s", error)
        gone.wait(task["alive"] / HEARTBEATS_PER_LEASE)
    os._exit(0)  # the reading thread may still hold its file


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped (SIGSTOP, Ctrl-Z): it does nothing, so it is not alive."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        state = stat.read_text().rpartition(")")[2].split()[0]
    except OSError:
        shown = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
        state = shown.stdout.strip()[:1]
    return state in ("T", "t")
