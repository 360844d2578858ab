"""Steps in threads of this process, for work that is mostly I/O. A thread cannot be killed, only abandoned."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

from stepwell.model.claimed import Claim
from stepwell.run.channel import DirectChannel
from stepwell.run.executors.in_process import InProcessExecutor


class ThreadExecutor(InProcessExecutor):
    """One thread per slot, started when it is first needed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._work: SimpleQueue[tuple[Claim, DirectChannel] | None] = SimpleQueue()
        self._threads = 0
        self._lock = threading.Lock()

    def _start_run(self, claim: Claim, channel: DirectChannel) -> None:
        with self._lock:
            needed = self._threads < min(self.slots, len(self._channels))
            self._threads += needed
        if needed:
            threading.Thread(target=self._serve, name=f"stepwell-slot-{self._threads}", daemon=True).start()
        self._work.put((claim, channel))

    def _serve(self) -> None:
        while (task := self._work.get()) is not None:
            claim, channel = task
            if not channel.is_abandoned:  # while it waited for a free thread
                self._run_here(claim, channel)
            if channel.is_abandoned:
                return  # its slot has a new thread

    def abandon(self, claim: Claim) -> None:
        if claim.key in self._channels:
            with self._lock:
                self._threads -= 1
        super().abandon(claim)

    def close(self) -> None:
        for _ in range(self._threads):
            self._work.put(None)
