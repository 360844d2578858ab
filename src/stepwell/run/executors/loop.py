"""Async jobs on one event loop in a thread of its own; sync jobs run in other threads.

Each sync run gets a new thread: an abandoned run that hangs does not occupy a thread of a pool, and the interpreter
would wait for the threads of a pool at exit.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from stepwell.model.claimed import Claim
from stepwell.run.channel import DirectChannel
from stepwell.run.ending import Ending
from stepwell.run.executors.in_process import InProcessExecutor
from stepwell.run.lifecycle import handle
from stepwell.run.running import RunningStep

_LOGGER: Final = logging.getLogger("stepwell.worker")

# A loop that has not responded for this long is blocked by a job that does not await. The same as `MAX_WAIT_SECONDS`,
# how long claims may wait in a worker. Real time, as everywhere here: another thread does not respond.
ANSWER_SECONDS: Final = 0.5


class LoopExecutor(InProcessExecutor):
    """Runs up to `slots` coroutines at once."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tasks: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._incoming: deque[tuple[Claim, DirectChannel]] = deque()
        self._abandoned: deque[tuple[int, int]] = deque()
        self._asked_at: float | None = None  # when the loop was called, if it has not responded yet
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="stepwell-loop", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                self._loop.run_forever()
                return
            except BaseException as error:  # from a task that a job started; code that awaits the task gets it too
                _LOGGER.warning("%r was raised by a task that a job started; the event loop keeps running", error)

    def _start_run(self, claim: Claim, channel: DirectChannel) -> None:
        if not self._registry[claim.step.action].is_async:
            threading.Thread(target=self._run_here, args=(claim, channel), name="stepwell-sync", daemon=True).start()
            return
        self._incoming.append((claim, channel))
        if self._asked_at is None:  # one call starts all: each is a system call
            self._asked_at = time.monotonic()
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        was_occupied, self._asked_at = self.is_occupied(), None
        while self._abandoned:
            if (task := self._tasks.get(self._abandoned.popleft())) is not None:
                task.cancel()  # the job may suppress it
        for claim, channel in self._not_started():
            if not channel.is_abandoned:  # while the loop was blocked
                self._tasks[claim.key] = self._loop.create_task(self._run(claim, channel))
        if was_occupied:
            self._wake_pipe.wake()

    def _not_started(self) -> Iterator[tuple[Claim, DirectChannel]]:
        """Takes each claim once: either the loop starts it, or the worker withdraws it."""
        with suppress(IndexError):
            while True:
                yield self._incoming.popleft()

    def is_occupied(self) -> bool:
        asked_at = self._asked_at
        return asked_at is not None and time.monotonic() - asked_at > ANSWER_SECONDS

    def free(self) -> int:
        return 0 if self.is_occupied() else super().free()

    def withdraw(self, *, everything: bool = False) -> list[Claim]:
        if not everything and not self.is_occupied():
            return []
        return [claim for claim, _ in self._not_started() if self._channels.pop(claim.key, None) is not None]

    async def _run(self, claim: Claim, channel: DirectChannel) -> None:
        try:
            if not claim.may_begin():
                return self._end(claim, Ending(verb="hand_back"))
            step = RunningStep(claim.step, channel, self._database.clock)
            definition = self._registry[step.action]
            self._end(claim, await handle(definition, step, claim.step.arguments))
        except BaseException as error:
            self._end(claim, error)
        finally:
            self._tasks.pop(claim.key, None)

    def abandon(self, claim: Claim) -> None:
        super().abandon(claim)
        if self._registry[claim.step.action].is_async:
            self._abandoned.append(claim.key)
            self._asked_at = -math.inf  # its slot is not free before the loop has responded
            self._loop.call_soon_threadsafe(self._answer)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(5.0)
        if not self._thread.is_alive():
            self._loop.close()

    def _stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        gathered = asyncio.gather(*tasks, return_exceptions=True)
        gathered.add_done_callback(lambda _: self._loop.stop())
        self._loop.call_later(2.0, self._loop.stop)
