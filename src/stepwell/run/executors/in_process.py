"""What threads and coroutines have in common: they run in the worker's process and use its database."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any

from stepwell.define.registry import Registry
from stepwell.model.claimed import Claim
from stepwell.model.error_text import describe, stack_of
from stepwell.run.channel import DirectChannel, run_here
from stepwell.run.ending import Ended, Ending
from stepwell.run.executors import Executor
from stepwell.run.finish import Finisher
from stepwell.run.running import RunningStep
from stepwell.service.wakeup import WakePipe
from stepwell.store import Database


class InProcessExecutor(Executor):
    """Tracks the channels of all runs; a subclass starts them."""

    can_end_runs = False

    def __init__(self, database: Database, registry: Registry, finisher: Finisher, slots: int) -> None:
        self.slots = slots
        self._database = database
        self._registry = registry
        self._finisher = finisher
        self._wake_pipe = WakePipe()
        self._ended: deque[Ended] = deque()
        self._channels: dict[tuple[int, int], DirectChannel] = {}

    @abstractmethod
    def _start_run(self, claim: Claim, channel: DirectChannel) -> None: ...

    def free(self) -> int:
        return self.slots - len(self._channels)

    def running(self) -> list[Claim]:
        return [channel.claim for channel in self._channels.values()]

    def start(self, waiting: deque[Claim], seconds_per_step: float | None) -> list[Claim]:
        taken = [waiting.popleft() for _ in range(min(self.free(), len(waiting)))]
        for claim in taken:
            channel = DirectChannel(self._database, self._finisher, claim)
            self._channels[claim.key] = channel
            self._start_run(claim, channel)
        return taken

    def _run_here(self, claim: Claim, channel: DirectChannel) -> None:
        """Run a step in the calling thread."""
        if not claim.may_begin():
            return self._end(claim, Ending(verb="hand_back"))
        try:
            step = RunningStep(claim.step, channel, self._database.clock)
            self._end(claim, run_here(self._registry[step.action], step, claim.step.arguments))
        except BaseException as error:
            self._end(claim, error)

    def _end(self, claim: Claim, ending: Ending | BaseException) -> None:
        """Called in the thread in which the run has ended."""
        if isinstance(ending, BaseException):
            ending = Ending(verb="fail", reason="error", error=describe(ending), stack=stack_of(ending))
        self._ended.append((claim, ending))
        self._wake_pipe.wake()

    def files(self) -> Sequence[Any]:
        return [self._wake_pipe]

    def collect(self) -> list[Ended]:
        self._wake_pipe.clear()
        ended = []
        while self._ended:
            claim, ending = self._ended.popleft()
            if self._channels.pop(claim.key, None) is not None:  # else it was abandoned: ignore its ending
                ended.append((claim, ending))
        return ended

    def request_cancel(self, claim: Claim) -> None:
        if claim.key in self._channels:
            self._channels[claim.key].request_cancel()

    def abandon(self, claim: Claim) -> None:
        channel = self._channels.pop(claim.key, None)
        if channel is not None:
            channel.is_abandoned = True
            channel.request_cancel()
