"""The inside of a slot: a process that runs one step after the other and talks through a pipe."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import resource
import select
import signal
import struct
import sys
import threading
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepwell.model import reasons
from stepwell.model.claimed import ClaimedStep
from stepwell.model.error_text import describe, stack_of
from stepwell.model.errors import DatabaseBusy, InvalidStep, StepwellError, UnknownAction
from stepwell.run.channel import run_here
from stepwell.run.ending import Ending
from stepwell.run.executors.inbox import Said
from stepwell.run.running import RunningStep
from stepwell.run.supervision import LeaseLost
from stepwell.service.locate import load_app
from stepwell.service.signals import WORKER_SIGNALS

if TYPE_CHECKING:
    from ctypes import c_uint64

    from stepwell.app import Stepwell

PERMIT: Final = struct.Struct("!Q")  # the number of a run: whoever reads it may begin the run
_PR_SET_PDEATHSIG: Final = 1


class Desk:
    """Where a slot finds its next step.

    The steps come through a pipe, ahead of their turn. The permits themselves, each the number of a run, come
    through a second one, which the worker can read as well: a turn is had by one of the two, so what the worker has
    taken back never begins here.
    """

    def __init__(self, connection: Connection, permits: Connection) -> None:
        self._connection = connection
        self._permits = permits.fileno()
        self._any_permit = select.poll()
        self._any_permit.register(permits, select.POLLIN)
        self._steps: dict[int, ClaimedStep] = {}

    def next_run(self) -> tuple[int, ClaimedStep]:
        """Wait for a turn; says which, and gives its step."""
        number = self._next_permit()
        while number not in self._steps:
            self._put_down(receive(self._connection))
        while (first := next(iter(self._steps))) < number:
            del self._steps[first]  # it was taken back
        return number, self._steps.pop(number)

    def _next_permit(self) -> int:
        while True:
            try:
                turn = os.read(self._permits, PERMIT.size)
            except BlockingIOError:  # there is none, or the worker was faster
                self._any_permit.poll()
                continue
            if len(turn) < PERMIT.size:
                raise EOFError
            (number,) = PERMIT.unpack(turn)
            return int(number)

    def answer(self) -> dict[str, Any]:
        """The worker's answer to a question."""
        while "run" in (message := receive(self._connection)):
            self._put_down(message)
        return message

    def _put_down(self, message: dict[str, Any]) -> None:
        self._steps.update((number, ClaimedStep(*facts)) for number, facts in message["run"].items())


class PipeChannel:
    """A run whose worker is at the other end of a pipe."""

    def __init__(self, connection: Connection, desk: Desk, number: int, cancelled: c_uint64) -> None:
        self._connection = connection
        self._desk = desk
        self._number = number
        self._cancelled = cancelled
        self._pid = os.getpid()
        self._lock = threading.Lock()  # the job may have threads of its own
        self._is_over = False

    def record(self, stage: str, response: str, children: list[dict[str, Any]]) -> bool:
        return self._ask(Said(say="record", stage=stage, response=response, children=children))

    def checkpoint(self, data: str) -> bool:
        return self._ask(Said(say="checkpoint", data=data))

    def _ask(self, question: Said) -> bool:
        self._check_process()
        with self._lock:
            if self._is_over:
                return False
            send(self._connection, question)
            answer = self._desk.answer()
        if answer.get("refused"):
            raise InvalidStep(answer["refused"])
        if answer.get("busy"):
            raise DatabaseBusy(answer["busy"])
        return bool(answer["ok"])

    def progress(self, done: float, total: float | None) -> None:
        self._tell(Said(say="progress", done=done, total=total))

    def log(self, level: str, message: str) -> None:
        self._tell(Said(say="log", level=level, message=message))

    def _tell(self, word: Said) -> None:
        self._check_process()
        with self._lock:
            if not self._is_over:
                send(self._connection, word)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:  # two that write into one pipe would garble it
            raise StepwellError("only the process that runs the step can speak for it, not one that it forked")

    def cancel_requested(self) -> bool:
        return self._cancelled.value == self._number

    def hang_up(self) -> None:
        """The run is over. Threads that it has left behind speak for nobody: the next run is not theirs."""
        with self._lock:
            self._is_over = True


def serve(connection: Connection, permits: Connection, app_name: str, cancelled: c_uint64, max_memory: int) -> None:
    """Run one step after the other until the pipe is closed. What has ended is said before the next one begins."""
    _settle_in(max_memory)
    try:
        app = load_app(app_name)
    except Exception as error:
        send(connection, Said(say="broken", error=f"{describe(error)}\n{stack_of(error)}"))
        return
    gc.freeze()  # what was imported stays: looking through it again and again would cost each run a microsecond or two
    send(connection, Said(say="ready"))
    pid = os.getpid()
    desk = Desk(connection, permits)
    with suppress(EOFError, OSError, LeaseLost):
        while True:
            number, step = desk.next_run()
            line = PipeChannel(connection, desk, number, cancelled)
            ending = _run(app, app_name, step, line)
            if os.getpid() != pid:
                os._exit(0)  # a copy that the job forked and let return: it has nothing to say here
            line.hang_up()
            _flush(sys.stdout)
            _flush(sys.stderr)
            connection.send_bytes(_ended(number, ending))


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except Exception:  # closed, broken, replaced: whatever the job did to it
        return


def _run(app: Stepwell, app_name: str, step: ClaimedStep, line: PipeChannel) -> Ending:
    try:
        definition = app.jobs[step.action]
    except UnknownAction as error:
        where = f"{app_name}, as the processes of this worker import it, does not define it: is it defined elsewhere?"
        return Ending(verb="fail", reason=reasons.ERROR, error=f"{describe(error)}; {where}")
    return run_here(definition, RunningStep(step, line, app.clock), step.arguments)


def _ended(number: int, ending: Ending) -> bytes:
    try:
        return msgspec.msgpack.encode(Said(say="ended", number=number, ending=ending))
    except Exception as error:
        failed = Ending(verb="fail", reason=reasons.ERROR, error=f"how it ended cannot be told: {describe(error)}")
        return msgspec.msgpack.encode(Said(say="ended", number=number, ending=failed))


def _settle_in(max_memory: int) -> None:
    os.setsid()  # a group of its own: Ctrl-C is for the worker, and ending this process ends what it started
    _leave_signals_to_the_worker()
    _let_the_fork_server_end()
    # A process like any other: multiprocessing would forbid a daemon to have children, and jobs may want some.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    if sys.platform == "linux":  # nobody is left behind when the worker is killed, and with it the fork server
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if max_memory:
        resource.setrlimit(resource.RLIMIT_AS, (max_memory, max_memory))


def _let_the_fork_server_end() -> None:
    """It ends when nobody holds this file open any more; each of its children is given a copy."""
    server = getattr(forkserver, "_forkserver", None)
    file = getattr(server, "_forkserver_alive_fd", None)
    if server is not None and file is not None:
        server._forkserver_alive_fd = None
        os.close(file)


def _leave_signals_to_the_worker() -> None:
    """It decides when this process has to end.

    Handlers, for what is ignored would be ignored by every program that a job starts; and only here, for a job may
    have to end a process that it forked.
    """
    pid = os.getpid()

    def stay(number: int, frame: object) -> None:
        if os.getpid() != pid:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in WORKER_SIGNALS:
        signal.signal(number, stay)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WORKER_SIGNALS)


def send(connection: Connection, message: Any) -> None:
    connection.send_bytes(msgspec.msgpack.encode(message))


def receive(connection: Connection) -> dict[str, Any]:
    message: dict[str, Any] = msgspec.msgpack.decode(connection.recv_bytes())
    return message
