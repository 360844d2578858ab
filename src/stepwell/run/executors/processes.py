"""Steps in processes of their own, one per slot. What a job does to its process harms no other.

Short steps are lined up for a slot, so that it need not wait for the worker after each of them. A child says that a run
has ended before it begins the next: when it dies, the first run without an end is the one that it died of.

The children come from a fork server, which has imported Stepwell but nothing of the app: a new one takes milliseconds
plus the import of the app.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import select
import signal
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from ctypes import c_uint64
from heapq import heapify, heapreplace
from multiprocessing import resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any, Final

from stepwell.model.claimed import Claim, ClaimedStep
from stepwell.model.errors import DatabaseBusy, DatabaseUnavailable, InvalidStep
from stepwell.run.ending import Ended, Ending
from stepwell.run.executors import PREFETCH_SECONDS, Executor
from stepwell.run.executors.child import PERMIT, send, serve
from stepwell.run.executors.inbox import Inbox, Said
from stepwell.run.finish import RESCUES, Finisher
from stepwell.service import signals
from stepwell.store import Database
from stepwell.store.engine.runs import LogEntry

_LOGGER: Final = logging.getLogger("stepwell.worker")

# A child that dies before it can serve is replaced after a pause that doubles, so that a broken app costs no core.
RESTART_SECONDS: Final = (0.1, 30.0)
NOTES_SECONDS: Final = 0.5
ASK_AGAIN_SECONDS: Final = 1.0
PREFETCH_LIMIT: Final = 128
# Of rows that a child has not read yet: more could fill the pipe, and then the worker would wait for the child.
UNREAD_BYTES: Final = 98_304
UNREAD_MESSAGES: Final = 16
BURY_SECONDS: Final = 5.0  # a process that was killed is gone in milliseconds, unless it hangs in the kernel


class ProcessExecutor(Executor):
    """Keeps a child alive for every slot, from the first `collect` on."""

    can_end_runs = True

    def __init__(self, database: Database, finisher: Finisher, app_name: str, slots: int, max_memory: int = 0) -> None:
        self.slots = slots
        self._database = database
        self._finisher = finisher
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["stepwell.run.executors.child", "stepwell.app"])
        self._made = (app_name, max_memory)
        self._slots = [_Slot(self._context, *self._made) for _ in range(slots)]
        self._notes_at = self._ask_again_at = 0.0
        self._broken = ""
        self._given_back: list[Claim] = []
        self._heard: list[Ended] = []  # while a run was cut

    def free(self) -> int:
        return sum(slot.is_free for slot in self._slots)

    def prefetched(self) -> int:
        return sum(max(0, len(slot.runs) - 1) for slot in self._slots)

    def take(self, waiting: deque[Claim], pace: float | None) -> list[Claim]:
        longest = 1 if pace is None else min(int(PREFETCH_SECONDS / max(pace, 1e-6)), PREFETCH_LIMIT)
        now = time.monotonic()
        lines = [(len(slot.runs), place) for place, slot in enumerate(self._slots) if slot.takes_steps(now)]
        heapify(lines)
        taken: list[Claim] = []
        while waiting and lines:
            length, place = lines[0]
            if length and (length >= longest or not self._slots[place].can_prefetch(waiting[0])):
                break
            taken.append(waiting.popleft())
            self._slots[place].prefetch(taken[-1], now)
            heapreplace(lines, (length + 1, place))
        for slot in self._slots:
            slot.send_prefetched()
        return taken

    def give_back(self, *, everything: bool = False) -> list[Claim]:
        given_back, self._given_back = self._given_back, []
        now = time.monotonic()
        for slot in self._slots:
            if len(slot.runs) > 1 and (everything or slot.is_held_up(now)):
                given_back += slot.take_back()
        return given_back

    def files(self) -> Sequence[Any]:
        return [file for slot in self._slots for file in slot.files()]

    def collect(self) -> list[Ended]:
        ended, self._heard = self._heard, []
        for slot in self._slots:
            ended += self._listen(slot)
            slot.keep_alive()
        if time.monotonic() - self._notes_at >= NOTES_SECONDS:
            self._notes_at = time.monotonic()
            with suppress(DatabaseUnavailable):  # kept for the next time
                for slot in self._slots:
                    self._write_notes(slot)
        return ended

    def _listen(self, slot: _Slot) -> list[Ended]:
        ended: list[Ended] = []
        alive = slot.is_alive()  # asked first: what it said before it died is still in the pipe
        try:
            if slot.question is not None:
                self._answer(slot, slot.question)
            if slot.process is not None:
                for said in slot.inbox.messages():
                    ended += self._hear(slot, said)
        except (EOFError, OSError):
            alive = False
        except DatabaseUnavailable:
            # Not once for every slot: each try may take as long as a connection may.
            self._ask_again_at = time.monotonic() + ASK_AGAIN_SECONDS
        except Exception as error:  # a job has written into the pipe
            _LOGGER.warning("a slot says what nobody understands (%s): its process is ended", error)
            alive = False
        if not alive and slot.process is not None:
            self._given_back += slot.take_back()
            how = slot.bury()
            # The first one died, unless we ended it because of another run. Should more have begun (their words were
            # lost behind nonsense), they come back with nothing spent.
            for place, (_, claim) in enumerate(slot.runs):
                charged = place == 0 and not slot.was_cut
                how_it_ended = Ending(verb="rescue", limit=RESCUES, error=how) if charged else Ending(verb="hand_back")
                ended.append((claim, how_it_ended))
            slot.runs.clear()
        return ended

    def _hear(self, slot: _Slot, said: Said) -> list[Ended]:
        match said.say:
            case "ended":
                claim = slot.claim
                if claim is None or said.ending is None or said.number != slot.runs[0][0]:
                    return []
                with suppress(DatabaseUnavailable):  # its last notes are not worth the wait
                    self._write_notes(slot)
                slot.go_on()
                return [(claim, said.ending)]
            case "ready":
                slot.welcome()
            case "broken":
                if said.error != self._broken:
                    self._broken = said.error
                    _LOGGER.error("a slot cannot import the app %s: %s", self._made[0], self._broken)
            case "progress":
                slot.progress = (said.done, said.total)
            case "log":
                slot.logs.append(LogEntry(self._database.now(), said.level, said.message))
            case _:
                self._answer(slot, said)
        return []

    def _answer(self, slot: _Slot, question: Said) -> None:
        """The child waits for this. While there is no database it waits on: asked again at the next round."""
        slot.question = question
        claim = slot.claim
        if claim is None or time.monotonic() < self._ask_again_at:
            return
        answer: dict[str, Any] = {}
        try:
            if question.say == "checkpoint":
                answer["ok"] = self._finisher.checkpoint(claim, question.data)
            else:
                answer["ok"] = self._finisher.record(claim, question.stage, question.response, question.children)
        except InvalidStep as error:
            answer["refused"] = str(error)
        except DatabaseBusy as error:
            if question.say != "checkpoint":
                raise  # its work is done: it is asked again until that is on record
            answer["busy"] = str(error)  # perhaps with a transaction of the job itself, which waits for this answer
        slot.question = None
        send(slot.connection, answer)

    def _write_notes(self, slot: _Slot) -> None:
        progress, logs = slot.progress, slot.logs
        if slot.claim is None or (progress is None and not logs):
            return
        self._finisher.note(slot.claim, progress=progress, logs=logs)
        slot.progress, slot.logs = None, []

    def request_cancel(self, claim: Claim) -> None:
        for slot in self._of(claim):
            slot.request_cancel(claim)

    def cut(self, claim: Claim) -> None:
        for slot in self._of(claim):
            self._heard += [(other, ending) for other, ending in self._listen(slot) if other.key != claim.key]
            self._given_back += [other for other in slot.take_back() if other.key != claim.key]
        for slot in self._of(claim):  # neither has it ended meanwhile, nor was it still to begin
            with suppress(DatabaseUnavailable):
                self._write_notes(slot)
            slot.forget(claim)
            slot.was_cut = True
            slot.kill()
            slot.wait_for_its_end()  # what is said about the step next must not come before

    def _of(self, claim: Claim) -> list[_Slot]:
        return [slot for slot in self._slots if any(mine.key == claim.key for _, mine in slot.runs)]

    def close(self) -> None:
        for slot in self._slots:
            slot.kill()
        for slot in self._slots:
            slot.wait_for_its_end()


class _Slot:
    """One child, or the place for one."""

    def __init__(self, context: ForkServerContext, app_name: str, max_memory: int) -> None:
        self._context = context
        self._made = (app_name, max_memory)
        self._pause, self._not_before = RESTART_SECONDS[0], 0.0
        self.cancelled: c_uint64 = context.RawValue(c_uint64, 0)
        self._number = 0  # of the last run: the child is told by it whose turn it is, and which one is cancelled
        self.runs: deque[tuple[int, Claim]] = deque()  # the first one has begun, as far as is known
        self.question: Said | None = None
        self.progress: tuple[float, float | None] | None = None
        self.logs: list[LogEntry] = []
        self.process: ForkServerProcess | None = None
        self.ready = False

    def _spawn(self) -> None:
        app_name, max_memory = self._made
        self.connection, theirs = self._context.Pipe()
        self._permits, self._their_permits = self._context.Pipe()  # both ends stay open here: see `take_back`
        os.set_blocking(self._their_permits.fileno(), False)
        process = self._context.Process(
            target=serve, args=(theirs, self._their_permits, app_name, self.cancelled, max_memory), daemon=True
        )
        resource_tracker.ensure_running()  # or it would be started in between, and let the signals through again
        with signals.blocked():  # the first slot starts the fork server, too
            process.start()
        self.process = process
        theirs.close()
        self.inbox = Inbox(self.connection.fileno())
        self._sentinel = select.poll()  # readable when the child has ended; asked after every run
        self._sentinel.register(self.process.sentinel, select.POLLIN)
        self.ready = self._has_served = self.was_cut = False
        self._begun = 0.0
        self._prefetched: dict[int, ClaimedStep] = {}  # not sent yet
        self._unread: deque[tuple[int, int]] = deque()  # numbers of runs, and about how long their rows are
        self._unread_bytes = 0
        self._unread_messages: deque[int] = deque()  # the first number in each
        self._cancelled_ahead: set[int] = set()

    def welcome(self) -> None:
        """It has imported the app and waits for work."""
        self.ready = self._has_served = True

    @property
    def claim(self) -> Claim | None:
        """What runs."""
        return self.runs[0][1] if self.runs else None

    @property
    def is_free(self) -> bool:
        return self.ready and not self.runs and self.process is not None

    def takes_steps(self, now: float) -> bool:
        return self.ready and self.process is not None and not self.is_held_up(now)

    def can_prefetch(self, claim: Claim) -> bool:
        """Behind another step. One with a time limit cannot: its time begins when it is taken."""
        fits = self._unread_bytes + _bytes(claim) <= UNREAD_BYTES and len(self._unread_messages) < UNREAD_MESSAGES
        return fits and not claim.step.timeout

    def is_held_up(self, now: float) -> bool:
        """Whether its step takes longer than those behind it can wait."""
        return bool(self.runs) and now - self._begun > PREFETCH_SECONDS

    def files(self) -> list[Any]:
        return [] if self.process is None else [self.connection, self.process.sentinel]

    def is_alive(self) -> bool:
        return self.process is not None and not self._sentinel.poll(0)

    def prefetch(self, claim: Claim, now: float) -> None:
        if not self.runs:
            self._begin(now)
        self._number += 1
        self.runs.append((self._number, claim))
        self._prefetched[self._number] = claim.step
        self._unread.append((self._number, _bytes(claim)))
        self._unread_bytes += self._unread[-1][1]

    def send_prefetched(self) -> None:
        prefetched, self._prefetched = self._prefetched, {}
        if prefetched:
            self._unread_messages.append(next(iter(prefetched)))
            with suppress(OSError):  # it has just died: the next collect notices
                # First, for a child that waits for its turn reads nothing else, and a row may be longer than the pipe.
                os.write(self._permits.fileno(), b"".join(map(PERMIT.pack, prefetched)))
                send(self.connection, {"run": prefetched})

    def _begin(self, now: float) -> None:
        self._begun = now
        self.question, self.progress, self.logs = None, None, []

    def go_on(self) -> None:
        """The first run has ended, and the next begins."""
        number, _ = self.runs.popleft()
        self._cancelled_ahead.discard(number)
        while self._unread and self._unread[0][0] <= number:
            self._unread_bytes -= self._unread.popleft()[1]
        while self._unread_messages and self._unread_messages[0] <= number:
            self._unread_messages.popleft()
        self._begin(time.monotonic())
        if self.runs and self.runs[0][0] in self._cancelled_ahead:
            self.cancelled.value = self.runs[0][0]

    def request_cancel(self, claim: Claim) -> None:
        """Now, or as soon as it has begun."""
        for place, (number, mine) in enumerate(self.runs):
            if mine.key == claim.key:
                self._cancelled_ahead.add(number)
                if place == 0:
                    self.cancelled.value = number

    def take_back(self) -> list[Claim]:
        """The turns that the child has not had yet: they never begin."""
        numbers: set[int] = set()
        with suppress(BlockingIOError):
            while self.process is not None:
                numbers.update(PERMIT.unpack(os.read(self._their_permits.fileno(), PERMIT.size)))
        taken_back = [claim for number, claim in self.runs if number in numbers]
        self.runs = deque(run for run in self.runs if run[0] not in numbers)
        return taken_back

    def forget(self, claim: Claim) -> None:
        self.runs = deque(run for run in self.runs if run[1].key != claim.key)

    def kill(self) -> None:
        """End the child and everything that it started."""
        self.ready = False
        if self.process is not None and self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()

    def wait_for_its_end(self) -> None:
        if self.process is not None:
            self.process.join(BURY_SECONDS)

    def bury(self) -> str:
        """Take a dead child away; says how it ended."""
        assert self.process is not None
        self.kill()
        self.wait_for_its_end()
        code = self.process.exitcode
        for end in (self.connection, self._permits, self._their_permits):
            end.close()
        self.process = None
        if self._has_served:
            self._pause = RESTART_SECONDS[0]
        else:
            self._be_patient()
        if code is not None and code < 0:
            return f"its process was ended by {signal.Signals(-code).name} while it ran"
        return f"its process ended with exit code {code} while it ran"

    def keep_alive(self) -> None:
        if self.process is not None or time.monotonic() < self._not_before:
            return
        try:
            self._spawn()
        except (OSError, EOFError) as error:  # no more processes or files to be had, or the fork server has just died
            _LOGGER.warning("cannot start a process for a slot (%s); tried again in %.1f s", error, self._pause)
            self.process = None
            self._be_patient()

    def _be_patient(self) -> None:
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, RESTART_SECONDS[1])


def _bytes(claim: Claim) -> int:
    """About as many as its row has on its way."""
    step = claim.step
    return 400 + sum(
        len(text) * (1 if text.isascii() else 4)
        for text in (step.arguments, step.checkpoint, step.response, step.label)
        if text
    )
