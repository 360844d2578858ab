"""Steps in child processes, one per slot: a job that damages its process affects no other.

Short steps are prefetched for a slot, so that it does not wait for the worker after each of them. A child reports the
end of a run before it starts the next: if it dies, the first run without an end is the one that killed it.

The children are started by a fork server, which has imported Stepwell but nothing of the app: starting one takes
milliseconds plus the import of the app.
"""

from __future__ import annotations

import logging
import multiprocessing
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from heapq import heapify, heapreplace
from typing import Any, Final

from stepwell.model.claimed import Claim
from stepwell.model.errors import DatabaseUnavailable
from stepwell.run.ending import Ended, Ending
from stepwell.run.executors import PREFETCH_SECONDS, Executor
from stepwell.run.executors.message_handler import MessageHandler
from stepwell.run.executors.slot import Slot
from stepwell.run.finish import MAX_RESCUES, Finisher
from stepwell.service.logs import LogOptions
from stepwell.store import Database

_LOGGER: Final = logging.getLogger("stepwell.worker")

NOTES_SECONDS: Final = 0.5  # progress and logs are read by people: this is soon enough
PREFETCH_LIMIT: Final = 128
# What the children of every app need; and what those of an app with declarations do, which is seen by its being loaded.
_PRELOADED: Final = ("stepwell.run.executors.child", "stepwell.public")
_DECLARATIONS: Final = (
    "stepwell.workflow.workflows", "stepwell.schedule.declaring", "stepwell.processes.processes"
)  # fmt: skip


class ProcessExecutor(Executor):
    """Keeps a child alive for every slot, from the first `collect` on. All times are real time, like its processes."""

    can_end_runs = True

    def __init__(
        self,
        database: Database,
        finisher: Finisher,
        app_name: str,
        slots: int,
        max_memory: int = 0,
        rescues: int = MAX_RESCUES,
        logs: LogOptions | None = None,
    ) -> None:
        self.slots = slots
        self._rescues = rescues
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*_PRELOADED, *(name for name in _DECLARATIONS if name in sys.modules)])
        self._slots = [Slot(context, app_name, max_memory, logs) for _ in range(slots)]
        self._messages = MessageHandler(database, finisher, app_name)
        self._notes_at = 0.0
        self._withdrawn: list[Claim] = []
        self._ended: list[Ended] = []  # noticed while another run was abandoned

    def free(self) -> int:
        return sum(slot.is_free for slot in self._slots)

    def running(self) -> list[Claim]:
        return [slot.queue.runs[0][1] for slot in self._slots if slot.queue.runs]

    def prefetched(self) -> int:
        return sum(max(0, len(slot.queue.runs) - 1) for slot in self._slots)

    def start(self, waiting: deque[Claim], seconds_per_step: float | None) -> list[Claim]:
        longest = (
            1 if seconds_per_step is None else min(int(PREFETCH_SECONDS / max(seconds_per_step, 1e-6)), PREFETCH_LIMIT)
        )
        now = time.monotonic()
        lengths = [(len(slot.queue.runs), place) for place, slot in enumerate(self._slots) if slot.takes_steps(now)]
        heapify(lengths)
        taken: list[Claim] = []
        while waiting and lengths:
            length, place = lengths[0]
            queue = self._slots[place].queue
            if length and (length >= longest or not queue.can_prefetch(waiting[0])):
                break
            taken.append(waiting.popleft())
            queue.add(taken[-1], now)
            heapreplace(lengths, (length + 1, place))
        if taken:
            for slot in self._slots:
                slot.send_added()
        return taken

    def withdraw(self, *, everything: bool = False) -> list[Claim]:
        withdrawn, self._withdrawn = self._withdrawn, []
        now = time.monotonic()
        for slot in self._slots:
            if len(slot.queue.runs) > 1 and (everything or slot.queue.is_occupied(now)):
                withdrawn += slot.withdraw()
        return withdrawn

    def files(self) -> Sequence[Any]:
        return [file for slot in self._slots for file in slot.files()]

    def collect(self) -> list[Ended]:
        ended, self._ended = self._ended, []
        for slot in self._slots:
            ended += self._collect(slot)
            slot.ensure_started()
        if time.monotonic() - self._notes_at >= NOTES_SECONDS:
            self._notes_at = time.monotonic()
            with suppress(DatabaseUnavailable):  # still buffered: written next time
                for slot in self._slots:
                    self._messages.write_notes(slot)
        return ended

    def _collect(self, slot: Slot) -> list[Ended]:
        ended: list[Ended] = []
        alive = slot.is_alive()  # checked first: messages sent before its death are still in the pipe
        try:
            for run in self._messages.receive(slot):
                ended.append(run)  # one by one: those before an error count
        except (EOFError, OSError):
            alive = False
        except Exception as error:  # a job wrote into the pipe
            _LOGGER.warning("malformed message from slot %d; killing it: %s", self._slots.index(slot) + 1, error)
            alive = False
        if not alive and slot.process is not None:
            self._withdrawn += slot.withdraw()
            ended += self._reap(slot)
        return ended

    def _reap(self, slot: Slot) -> list[Ended]:
        """The first run killed the child, unless we killed it to abandon a run.

        If more have started (their messages were lost behind a malformed one), they return to Pending, no retry spent.
        """
        how = slot.reap()
        runs, slot.queue.runs = slot.queue.runs, deque()
        ended: list[Ended] = [(claim, Ending(verb="hand_back")) for _, claim in runs]
        if ended and not slot.was_killed:
            ended[0] = (ended[0][0], Ending(verb="rescue", limit=self._rescues, error=how))
        return ended

    def request_cancel(self, claim: Claim) -> None:
        for slot in self._slots_with(claim):
            slot.queue.request_cancel(claim)

    def abandon(self, claim: Claim) -> None:
        for slot in self._slots_with(claim):
            self._ended += [(other, ending) for other, ending in self._collect(slot) if other.key != claim.key]
            self._withdrawn += [other for other in slot.withdraw() if other.key != claim.key]
        for slot in self._slots_with(claim):  # it has started and not ended
            with suppress(DatabaseUnavailable):
                self._messages.write_notes(slot)
            slot.queue.forget(claim)
            slot.was_killed = True
            slot.kill()
            slot.wait_for_exit()  # the end of the step must not be written before the run has really ended

    def _slots_with(self, claim: Claim) -> list[Slot]:
        return [slot for slot in self._slots if slot.queue.contains(claim)]

    def close(self) -> None:
        for slot in self._slots:
            slot.kill()
        for slot in self._slots:
            slot.wait_for_exit()
