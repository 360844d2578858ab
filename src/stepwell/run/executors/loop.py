"""Coroutine jobs on one event loop, in a thread of its own; plain functions run in threads beside it.

Each of those has a thread for itself: one that hangs and was cut off keeps no thread from the next, and a pool's
threads would be waited for when the program ends.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import Any, Final

from stepwell.run.claimed import Claim
from stepwell.run.direct import DirectLine
from stepwell.run.executors.in_process import InProcessExecutor
from stepwell.run.lifecycle import handle
from stepwell.run.running import RunningStep

_LOGGER: Final = logging.getLogger("stepwell.worker")


class LoopExecutor(InProcessExecutor):
    """Runs up to `slots` coroutines at once."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tasks: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._incoming: deque[tuple[Claim, DirectLine]] = deque()
        self._is_called = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="stepwell-loop", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                self._loop.run_forever()
                return
            except BaseException as error:  # of a task that a job has started: whoever awaits that has it, too
                _LOGGER.warning("%r came out of a task and would have ended the event loop; it goes on", error)

    def _begin(self, claim: Claim, line: DirectLine) -> None:
        if not self._registry[claim.step.action].is_async:
            threading.Thread(target=self._run_here, args=(claim, line), name="stepwell-beside", daemon=True).start()
            return
        self._incoming.append((claim, line))
        if not self._is_called:  # a call for each would be a system call for each
            self._is_called = True
            self._loop.call_soon_threadsafe(self._begin_all)

    def _begin_all(self) -> None:
        self._is_called = False
        while self._incoming:
            claim, line = self._incoming.popleft()
            if line.cut_off:  # while the loop was busy
                continue
            self._tasks[claim.key] = self._loop.create_task(self._run(claim, line))

    async def _run(self, claim: Claim, line: DirectLine) -> None:
        try:
            step = RunningStep(claim.step, line)
            definition = self._registry[step.action]
            step.database = self._database
            self._end(claim, await handle(definition, step, claim.step.arguments))
        except BaseException as error:
            self._end(claim, error)
        finally:
            self._tasks.pop(claim.key, None)

    def cut(self, claim: Claim) -> None:
        task = self._tasks.get(claim.key)
        if task is not None:
            self._loop.call_soon_threadsafe(task.cancel)  # which it may swallow
        super().cut(claim)

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
