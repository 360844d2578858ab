"""Steps in processes of their own: one child and one pipe per slot. What a job does to its process harms no other.

The children come from a fork server, which has imported Stepwell but nothing of the app: a new one takes milliseconds
plus the import of the app.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from ctypes import c_uint64
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any, Final

import msgspec

from stepwell.model.errors import DatabaseUnavailable, InvalidStep
from stepwell.run.ending import Ending
from stepwell.run.executors import Executor
from stepwell.run.executors.child import receive, send, serve
from stepwell.run.finish import RESCUES, Claim, Ended, Finisher
from stepwell.store import Database

_LOGGER: Final = logging.getLogger("stepwell.worker")

# A child that dies before it can serve is replaced after a pause that doubles, so that a broken app costs no core.
RESTART_SECONDS: Final = (0.1, 30.0)
NOTES_SECONDS: Final = 0.5


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
        self._notes_at = 0.0
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
            for slot in self._slots:
                self._write_notes(slot)
        return ended

    def _listen(self, slot: _Slot) -> list[Ended]:
        ended: list[Ended] = []
        alive = slot.is_alive()  # asked first: what it said before it died is still in the pipe
        try:
            if slot.question is not None:
                self._answer(slot, slot.question)
            while slot.process is not None and slot.connection.poll():
                ended += self._hear(slot, receive(slot.connection))
        except (EOFError, OSError):
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
                self._write_notes(slot)
                claim, slot.claim = slot.claim, None
                if claim is not None:
                    return [(claim, msgspec.convert(message["ending"], Ending))]
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
        if claim is None:
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
        except DatabaseUnavailable:
            return
        slot.question = None
        send(slot.connection, answer)

    def _write_notes(self, slot: _Slot) -> None:
        progress, logs = slot.progress, slot.logs
        if slot.claim is None or (progress is None and not logs):
            return
        with suppress(DatabaseUnavailable):  # kept for the next time
            self._finisher.note(slot.claim, progress=progress, logs=logs)
            slot.progress, slot.logs = None, []

    def request_cancel(self, claim: Claim) -> None:
        for slot in self._of(claim):
            slot.cancelled.value = slot.number

    def cut(self, claim: Claim) -> None:
        for slot in self._of(claim):
            self._write_notes(slot)
            slot.claim = None
            slot.kill()

    def _of(self, claim: Claim) -> list[_Slot]:
        return [slot for slot in self._slots if slot.claim is not None and slot.claim.key == claim.key]

    def close(self) -> None:
        for slot in self._slots:
            slot.kill()


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
        self.process.start()
        theirs.close()
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
        return self.process is not None and self.process.is_alive()

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

    def bury(self) -> str:
        """Take a dead child away; says how it ended."""
        assert self.process is not None
        self.kill()
        self.process.join(5.0)
        code = self.process.exitcode
        self.connection.close()
        self.process = None
        if self._has_served:
            self._pause = RESTART_SECONDS[0]
        else:
            self._not_before = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, RESTART_SECONDS[1])
        if code is not None and code < 0:
            return f"its process was ended by {signal.Signals(-code).name} while it ran"
        return f"its process ended with exit code {code} while it ran"

    def keep_alive(self) -> None:
        if self.process is None and time.monotonic() >= self._not_before:
            self._spawn()
