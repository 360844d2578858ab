"""One slot: a child process, restarted when it dies."""

from __future__ import annotations

import logging
import os
import select
import signal
import time
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any, Final

from stepwell.model.claimed import Claim
from stepwell.run.executors.child import serve
from stepwell.run.executors.inbox import Inbox, Message
from stepwell.run.executors.notes import Notes
from stepwell.run.executors.run_queue import RunQueue
from stepwell.service import signals
from stepwell.service.logs import LogOptions
from stepwell.service.retry_delay import RetryDelay

_LOGGER: Final = logging.getLogger("stepwell.worker")

# A child that dies before it is ready is restarted after a delay: a broken app must not use up a core. Each attempt
# imports the app, which costs more than a database connection, so the longest delay is longer than elsewhere.
RESTART_SECONDS: Final = (0.1, 30.0)
EXIT_SECONDS: Final = 5.0  # a killed process is gone in milliseconds, unless it hangs in the kernel


class Slot:
    """Restarts its child whenever that has died. All times are real time, like its process."""

    def __init__(
        self, context: ForkServerContext, app_name: str, max_memory: int, logs: LogOptions | None = None
    ) -> None:
        self._context = context
        self._app_name, self._max_memory, self._logs = app_name, max_memory, logs
        self._restart_delay, self._not_before = RetryDelay(RESTART_SECONDS), 0.0
        self.process: ForkServerProcess | None = None
        self.queue = RunQueue(context)
        self.notes = Notes()
        self.request: Message | None = None  # the child waits for a reply to it
        self._is_ready = False

    # the child ------------------------------------------------------------------------------------------------

    def ensure_started(self) -> None:
        if self.process is not None or time.monotonic() < self._not_before:
            return
        try:
            self._start()
        except (OSError, EOFError) as error:  # no more processes or files, or the fork server has just died
            self.process = None
            _LOGGER.warning("cannot start a process for a slot; retrying in %.1f s: %s", self._back_off(), error)

    def _start(self) -> None:
        self.connection, theirs = self._context.Pipe()
        arguments = (theirs, self.queue.open(), self._app_name, self.queue.cancelled, self._max_memory, self._logs)
        process = self._context.Process(target=serve, args=arguments, daemon=True)
        resource_tracker.ensure_running()  # or it would be started below, and unblock the signals
        with signals.blocked():  # the first slot also starts the fork server
            process.start()
        self.process = process
        theirs.close()
        self.inbox = Inbox(self.connection.fileno())
        self._sentinel = select.poll()  # readable when the child has exited; polled after every run
        self._sentinel.register(self.process.sentinel, select.POLLIN)
        self._is_ready = self._was_ready = self.was_killed = False
        self.request = None
        self.notes.clear()

    def mark_ready(self) -> None:
        """It has imported the app and waits for work."""
        self._is_ready = self._was_ready = True

    def is_alive(self) -> bool:
        return self.process is not None and not self._sentinel.poll(0)

    def kill(self) -> None:
        """Kill the child and everything in its process group."""
        self._is_ready = False
        if self.process is not None and self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()

    def wait_for_exit(self) -> None:
        if self.process is not None:
            self.process.join(EXIT_SECONDS)

    def reap(self) -> str:
        """Clean up after a dead child; returns how it died."""
        assert self.process is not None
        self.kill()
        self.wait_for_exit()
        code = self.process.exitcode
        self.connection.close()
        self.queue.close()
        self.process = None
        if self._was_ready:
            self._restart_delay.reset()
        else:
            self._back_off()
        if code is not None and code < 0:
            return f"its process was killed by {signal.Signals(-code).name} during the run"
        return f"its process exited with code {code} during the run"

    def _back_off(self) -> float:
        seconds = self._restart_delay.next()
        self._not_before = time.monotonic() + seconds
        return seconds

    # its runs -------------------------------------------------------------------------------------------------

    @property
    def is_free(self) -> bool:
        return self._is_ready and not self.queue.runs

    def takes_steps(self, now: float) -> bool:
        return self._is_ready and not self.queue.is_occupied(now)

    def send_added(self) -> None:
        if self.process is not None:
            self.queue.send_added(self.connection)

    def withdraw(self) -> list[Claim]:
        """Withdraw the runs that have not started."""
        return [] if self.process is None else self.queue.withdraw()

    def advance(self) -> None:
        """The current run has ended, and the next one starts."""
        self.request = None
        self.notes.clear()
        self.queue.advance(time.monotonic())

    def files(self) -> list[Any]:
        return [] if self.process is None else [self.connection, self.process.sentinel]
