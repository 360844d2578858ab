"""The child's end of the two pipes between a worker and a slot: steps and permits come in, messages go out."""

from __future__ import annotations

import os
import select
import struct
import threading
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepwell.model.claimed import ClaimedStep
from stepwell.model.errors import DatabaseBusy, InvalidStep, StepwellError
from stepwell.run.executors.inbox import Message
from stepwell.store.engine.results import RelatedStep

if TYPE_CHECKING:
    from ctypes import c_uint64

# The number of a run, and when it may no longer begin: the side that reads it may start or withdraw the run.
PERMIT: Final = struct.Struct("!Qd")


def send(connection: Connection, message: Any) -> None:
    connection.send_bytes(msgspec.msgpack.encode(message))


def receive(connection: Connection) -> dict[str, Any]:
    message: dict[str, Any] = msgspec.msgpack.decode(connection.recv_bytes())
    return message


class IncomingRuns:
    """The runs that the worker has sent.

    Their steps arrive through one pipe, ahead of time. The permits to start them arrive through a second one, which the
    worker can read as well: each permit is read by one of the two, so a withdrawn run never starts here.
    """

    def __init__(self, connection: Connection, permits: Connection) -> None:
        self._connection = connection
        self._permits = permits.fileno()
        self._any_permit = select.poll()
        self._any_permit.register(permits, select.POLLIN)
        self._steps: dict[int, ClaimedStep] = {}

    def next_run(self) -> tuple[int, ClaimedStep, float]:
        """Wait for a permit; returns its number, the step, and when it may no longer begin."""
        number, begin_before = self._next_permit()
        while number not in self._steps:
            self._add(receive(self._connection))
        while (first := next(iter(self._steps))) < number:
            del self._steps[first]  # it was withdrawn
        return number, self._steps.pop(number), begin_before

    def _next_permit(self) -> tuple[int, float]:
        while True:
            try:
                permit = os.read(self._permits, PERMIT.size)
            except BlockingIOError:  # there is none, or the worker read it first
                self._any_permit.poll()
                continue
            if len(permit) < PERMIT.size:
                raise EOFError
            number, begin_before = PERMIT.unpack(permit)
            return number, begin_before

    def reply(self) -> dict[str, Any]:
        """Wait for the worker's reply to a request."""
        while "run" in (message := receive(self._connection)):
            self._add(message)
        return message

    def _add(self, message: dict[str, Any]) -> None:
        self._steps.update((number, ClaimedStep(*facts)) for number, facts in message["run"].items())


class PipeChannel:
    """The channel of a run in a child process: a pipe to its worker."""

    def __init__(self, connection: Connection, incoming: IncomingRuns, number: int, cancelled: c_uint64) -> None:
        self._connection = connection
        self._incoming = incoming
        self._number = number
        self._cancelled = cancelled
        self._pid = os.getpid()
        self._lock = threading.Lock()  # the job may have threads of its own
        self._is_over = False

    def record(self, stage: str, response: str, children: list[dict[str, Any]]) -> bool:
        return self._request(Message(kind="record", stage=stage, response=response, children=children))

    def checkpoint(self, data: str) -> bool:
        return self._request(Message(kind="checkpoint", data=data))

    def related(self, of: int | None) -> list[RelatedStep]:
        return msgspec.convert(self._ask(Message(kind="related", of=of)).get("related", []), list[RelatedStep])

    def _request(self, request: Message) -> bool:
        return bool(self._ask(request)["ok"])

    def _ask(self, request: Message) -> dict[str, Any]:
        self._check_process()
        with self._lock:
            if self._is_over:
                return {"ok": False}
            send(self._connection, request)
            reply = self._incoming.reply()
        if reply.get("refused"):
            raise InvalidStep(reply["refused"])
        if reply.get("busy"):
            raise DatabaseBusy(reply["busy"])
        return reply

    def progress(self, done: float, total: float | None) -> None:
        self._send(Message(kind="progress", done=done, total=total))

    def log(self, level: str, message: str) -> None:
        self._send(Message(kind="log", level=level, text=message))

    def _send(self, message: Message) -> None:
        self._check_process()
        with self._lock:
            if not self._is_over:
                send(self._connection, message)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:  # two writers would corrupt the messages in the pipe
            raise StepwellError("only the process that runs the step can use it, not a process that it forked")

    def cancel_requested(self) -> bool:
        return self._cancelled.value == self._number

    def close(self) -> None:
        """The run is over. Threads that it left running must not send messages for the next one."""
        with self._lock:
            self._is_over = True
