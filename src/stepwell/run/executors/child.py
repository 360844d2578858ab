"""The inside of a slot: a process that runs one step after the other and talks through a pipe."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepwell.model.errors import InvalidStep
from stepwell.run.direct import run_here
from stepwell.run.lifecycle import describe, stack_of
from stepwell.run.locate import load_app
from stepwell.run.outcomes import Fail
from stepwell.run.running import LeaseLost, RunningStep

if TYPE_CHECKING:
    from ctypes import c_uint64

_PR_SET_PDEATHSIG: Final = 1


class PipeLine:
    """A run whose worker is at the other end of a pipe."""

    def __init__(self, connection: Connection, number: int, cancelled: c_uint64) -> None:
        self._connection = connection
        self._number = number
        self._cancelled = cancelled

    def record(self, stage: str, response: str, children: list[dict[str, Any]]) -> bool:
        return self._ask({"say": "record", "stage": stage, "response": response, "children": children})

    def checkpoint(self, data: str) -> bool:
        return self._ask({"say": "checkpoint", "data": data})

    def _ask(self, message: dict[str, Any]) -> bool:
        send(self._connection, message)
        answer = receive(self._connection)
        if answer.get("refused"):
            raise Fail(InvalidStep(answer["refused"]))
        return bool(answer["ok"])

    def progress(self, done: float, total: float | None) -> None:
        send(self._connection, {"say": "progress", "done": done, "total": total})

    def log(self, level: str, message: str) -> None:
        send(self._connection, {"say": "log", "level": level, "message": message})

    def cancel_requested(self) -> bool:
        return self._cancelled.value == self._number


def serve(connection: Connection, app_name: str, cancelled: c_uint64, max_memory: int) -> None:
    """Run what comes through the pipe until it is closed."""
    _settle_in(max_memory)
    try:
        app = load_app(app_name, in_slot=True)
    except Exception as error:
        send(connection, {"say": "broken", "error": f"{describe(error)}\n{stack_of(error)}"})
        return
    send(connection, {"say": "ready"})
    with suppress(EOFError, OSError, LeaseLost):
        while True:
            message = receive(connection)
            row = message["run"]
            step = RunningStep(row, PipeLine(connection, message["number"], cancelled))
            ending = run_here(app.jobs[row["action"]], step, row["arguments"])
            sys.stdout.flush()
            sys.stderr.flush()
            send(connection, {"say": "ended", "ending": ending})


def _settle_in(max_memory: int) -> None:
    os.setsid()  # a group of its own: Ctrl-C is for the worker, and ending this process ends what it started
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":  # nobody is left behind when the worker is killed
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if max_memory:
        resource.setrlimit(resource.RLIMIT_AS, (max_memory, max_memory))


def send(connection: Connection, message: Any) -> None:
    connection.send_bytes(msgspec.msgpack.encode(message))


def receive(connection: Connection) -> dict[str, Any]:
    message: dict[str, Any] = msgspec.msgpack.decode(connection.recv_bytes())
    return message
