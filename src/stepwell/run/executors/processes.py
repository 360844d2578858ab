"""Steps in processes of their own: one child and one pipe per slot. What a job does to its process harms no other.

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
from collections.abc import Sequence
from contextlib import suppress
from ctypes import c_uint64
from multiprocessing import resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any, Final

import msgspec

from stepwell.model.errors import DatabaseUnavailable, InvalidStep
from stepwell.run import signals
from stepwell.run.ending import Ending
from stepwell.run.executors import Executor
from stepwell.run.executors.child import send, serve
from stepwell.run.executors.inbox import Inbox
from stepwell.run.finish import RESCUES, Claim, Ended, Finisher
from stepwell.store import Database

_LOGGER: Final = logging.getLogger("stepwell.worker")

# A child that dies before it can serve is replaced after a pause that doubles, so that a broken app costs no core.
RESTART_SECONDS: Final = (0.1, 30.0)
NOTES_SECONDS: Final = 0.5
ASK_AGAIN_SECONDS: Final = 1.0
BURY_SECONDS: Final = 5.0  # a process that was killed is gone in milliseconds, unless it hangs in the kernel


class ProcessExecutor(Executor):
    """Keeps a child alive for every slot."""

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

    def free(self) -> int:
        return sum(slot.is_free for slot in self._slots)

    def start(self, claim: Claim) -> None:
        next(slot for slot in self._slots if slot.is_free).run(claim)

    def files(self) -> Sequence[Any]:
        return [file for slot in self._slots for file in slot.files()]

    def collect(self) -> list[Ended]:
        ended: list[Ended] = []
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
                for message in slot.inbox.messages():
                    ended += self._hear(slot, message)
        except (EOFError, OSError):
            alive = False
        except DatabaseUnavailable:
            # Not once for every slot: each try may take as long as a connection may.
            self._ask_again_at = time.monotonic() + ASK_AGAIN_SECONDS
        except Exception as error:  # a job has written into the pipe
            _LOGGER.warning("a slot says what nobody understands (%s): its process is ended", error)
            alive = False
        if not alive and slot.process is not None:
            how = slot.bury()
            if slot.claim is not None:
                ended.append((slot.claim, Ending(verb="rescue", limit=RESCUES, error=how)))
                slot.claim = None
        return ended

    def _hear(self, slot: _Slot, message: dict[str, Any]) -> list[Ended]:
        match message["say"]:
            case "ready":
                slot.welcome()
            case "broken":
                if message["error"] != self._broken:
                    self._broken = message["error"]
                    _LOGGER.error("a slot cannot import the app %s: %s", self._made[0], self._broken)
            case "ended":
                if message["number"] != slot.number:
                    return []
                ending = msgspec.convert(message["ending"], Ending)
                with suppress(DatabaseUnavailable):  # its last notes are not worth the wait
                    self._write_notes(slot)
                claim, slot.claim = slot.claim, None
                if claim is not None:
                    return [(claim, ending)]
            case "progress":
                slot.progress = (message["done"], message["total"])
            case "log":
                slot.logs.append({**message, "at": self._database.now()})
            case _:
                self._answer(slot, message)
        return []

    def _answer(self, slot: _Slot, question: dict[str, Any]) -> None:
        """The child waits for this. While there is no database it waits on: asked again at the next round."""
        slot.question = question
        claim = slot.claim
        if claim is None or time.monotonic() < self._ask_again_at:
            return
        answer: dict[str, Any] = {}
        try:
            if question["say"] == "checkpoint":
                answer["ok"] = self._finisher.checkpoint(claim, question["data"])
            else:
                answer["ok"] = self._finisher.record(
                    claim, question["stage"], question["response"], question["children"]
                )
        except InvalidStep as error:
            answer["refused"] = str(error)
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
            slot.cancelled.value = slot.number

    def cut(self, claim: Claim) -> None:
        for slot in self._of(claim):
            with suppress(DatabaseUnavailable):
                self._write_notes(slot)
            slot.claim = None
            slot.kill()
            slot.wait_for_its_end()  # what is said about the step next must not come before

    def _of(self, claim: Claim) -> list[_Slot]:
        return [slot for slot in self._slots if slot.claim is not None and slot.claim.key == claim.key]

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
        self.number = 0  # of the run: the child is told by it which one is cancelled
        self.claim: Claim | None = None
        self.question: dict[str, Any] | None = None
        self.progress: tuple[float, float | None] | None = None
        self.logs: list[dict[str, Any]] = []
        self._spawn()

    def _spawn(self) -> None:
        app_name, max_memory = self._made
        self.connection, theirs = self._context.Pipe()
        self.process: ForkServerProcess | None = self._context.Process(
            target=serve, args=(theirs, app_name, self.cancelled, max_memory), daemon=True
        )
        resource_tracker.ensure_running()  # or it would be started in between, and let the signals through again
        with signals.held_back():  # the first slot starts the fork server, too
            self.process.start()
        theirs.close()
        self.inbox = Inbox(self.connection.fileno())
        self._sentinel = select.poll()  # readable when the child has ended; asked after every run
        self._sentinel.register(self.process.sentinel, select.POLLIN)
        self.ready = self._has_served = False

    def welcome(self) -> None:
        """It has imported the app and waits for work."""
        self.ready = self._has_served = True

    @property
    def is_free(self) -> bool:
        return self.ready and self.claim is None and self.process is not None

    def files(self) -> list[Any]:
        return [] if self.process is None else [self.connection, self.process.sentinel]

    def is_alive(self) -> bool:
        return self.process is not None and not self._sentinel.poll(0)

    def run(self, claim: Claim) -> None:
        self.number += 1
        self.claim = claim
        self.question, self.progress, self.logs = None, None, []
        with suppress(OSError):  # it has just died: the next collect notices
            send(self.connection, {"run": claim.row, "number": self.number})

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
        self.connection.close()
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
