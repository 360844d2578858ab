"""The worker's heartbeat, written from where no job can block it.

If jobs run in processes of their own, a thread of the worker writes it. If they share the worker's process, a job that
holds the GIL would block such a thread: a small second process writes the heartbeat, as long as the worker's process
exists and is not suspended. The interval is real time, whatever clock was injected: other processes rely on it.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Final

from stepwell.model.clock import SystemClock, since_boot
from stepwell.model.errors import StepwellError
from stepwell.run.worker_row import WorkerRow, write_heartbeat
from stepwell.service import signals
from stepwell.store import open_database
from stepwell.store.os_processes import is_stopped

_LOGGER: Final = logging.getLogger("stepwell.worker")

HEARTBEATS_PER_LEASE: Final = 3  # a worker that misses one or two does not count as dead
STOP_SECONDS: Final = 2.0
# A heartbeat process that has reported nothing for this long (or for a lease, if that is longer) is restarted. It
# reports every attempt, and one that fails takes as long as a connection timeout.
SILENCE_SECONDS: Final = 20.0
_REPORT: Final = struct.Struct("!d")  # when a heartbeat was written, by `since_boot`; 0.0: it could not be written
# After a failure: the next one must not come later than the reaper expects it once the database can be written again.
RETRY_SECONDS: Final = 0.2
# The program of the second process. It imports what it needs, without the `__init__` of the package, which imports
# everything: 56 ms of CPU instead of 170, and 22 MB of memory instead of 35, at a time when the first steps run.
_PROGRAM: Final = f"""
import sys, types
sys.modules["stepwell"] = package = types.ModuleType("stepwell")
package.__path__ = [{str(Path(__file__).parents[1])!r}]
from stepwell.run.heartbeat import main
main()
"""


class Heartbeat(ABC):
    """Writes a worker's heartbeat at intervals, from `start` to `stop`."""

    @abstractmethod
    def start(self, worker: WorkerRow) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def ensure_running(self, worker: WorkerRow) -> None:
        """Called regularly: notes the heartbeats that were written, and restarts what writes them if it has died."""
        return


class ThreadHeartbeat(Heartbeat):
    """For a worker whose process runs no job."""

    def start(self, worker: WorkerRow) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(worker,), name="stepwell-heartbeat", daemon=True)
        self._thread.start()

    def _run(self, worker: WorkerRow) -> None:
        pause = interval = worker.alive_seconds / HEARTBEATS_PER_LEASE
        while not self._stop.wait(pause):
            try:
                worker.heartbeat()
                pause = interval
            except Exception as error:
                pause = min(interval, RETRY_SECONDS)
                _LOGGER.warning("cannot write the heartbeat; retrying in %.1f s: %s", pause, error)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class ProcessHeartbeat(Heartbeat):
    """For a worker that runs jobs in its own process."""

    def __init__(self, url: str) -> None:
        self._url = url

    def start(self, worker: WorkerRow) -> None:
        command = [sys.executable, "-c", _PROGRAM]
        # The URL goes through the pipe because any user can read the arguments of a process. It exits at end of file.
        with signals.blocked():
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._heard_at = since_boot()
        task = {"url": self._url, "worker": worker.id, "alive": worker.alive_seconds, "pid": os.getpid()}
        with suppress(OSError):  # it has died already: `ensure_running` notices
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:  # it waits for a database that does not answer
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def ensure_running(self, worker: WorkerRow) -> None:
        self._note_reports(worker)
        if (problem := self._problem(worker)) is None:
            return
        _LOGGER.warning("heartbeat process %s; restarting it", problem)
        self._process.kill()
        self.stop()
        try:
            self.start(worker)
        except OSError as error:  # no more processes; until then, the worker writes its heartbeats itself
            _LOGGER.warning("cannot start a heartbeat process; retrying: %s", error)

    def _note_reports(self, worker: WorkerRow) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            return
        with suppress(BlockingIOError):
            while reports := os.read(self._process.stdout.fileno(), 512 * _REPORT.size):
                self._heard_at = since_boot()
                for (at,) in _REPORT.iter_unpack(reports):
                    if at:
                        worker.note_heartbeat(at)

    def _problem(self, worker: WorkerRow) -> str | None:
        if self._process.poll() is not None:
            return "died"
        silent = since_boot() - self._heard_at
        if silent > worker.alive_seconds / 2 and is_stopped(self._process.pid):
            return "was suspended"
        if silent > max(worker.alive_seconds, SILENCE_SECONDS):
            return f"did nothing for {silent:.0f} s"
        return None


def main() -> None:
    """The entry point of the second process."""
    task = json.loads(sys.stdin.buffer.readline())
    os.set_blocking(sys.stdout.fileno(), False)
    gone = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.buffer.read()
        gone.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    database = None
    # The pipe closes when the worker dies, unless a process that it forked still holds it open: check the parent too.
    while not gone.is_set() and os.getppid() == task["pid"]:
        written_at, pause = 0.0, task["alive"] / HEARTBEATS_PER_LEASE
        try:
            if database is None:
                database = open_database(task["url"], SystemClock())
                database.use_lease(task["alive"])
            at = since_boot()
            if not is_stopped(task["pid"]) and write_heartbeat(database, task["worker"], task["alive"]):
                written_at = at
        except StepwellError as error:
            pause = min(pause, RETRY_SECONDS)
            _LOGGER.warning("cannot write the heartbeat; retrying in %.1f s: %s", pause, error)
        with suppress(OSError):  # the worker is gone, or was suspended for so long that the pipe is full
            os.write(sys.stdout.fileno(), _REPORT.pack(written_at))
        gone.wait(pause)
    os._exit(0)  # the reading thread may still block on stdin
