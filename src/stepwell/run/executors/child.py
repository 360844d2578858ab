"""The child process of a slot: runs one step after another and exchanges messages with its worker through a pipe."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import msgspec

from stepwell.model import reasons
from stepwell.model.claimed import ClaimedStep
from stepwell.model.clock import since_boot
from stepwell.model.error_text import describe, stack_of
from stepwell.model.errors import UnknownAction
from stepwell.run.channel import run_here
from stepwell.run.ending import Ending
from stepwell.run.executors.child_setup import set_up_process
from stepwell.run.executors.inbox import Message
from stepwell.run.executors.pipe import IncomingRuns, PipeChannel, send
from stepwell.run.log_fields import StepLogFilter
from stepwell.run.running import RunningStep
from stepwell.run.supervision import LeaseLost
from stepwell.service.locate import load_app
from stepwell.service.logs import LogOptions, log_records_of_app, set_up_logs

if TYPE_CHECKING:
    from ctypes import c_uint64

    from stepwell.app import Stepwell


def serve(
    connection: Connection,
    permits: Connection,
    app_name: str,
    cancelled: c_uint64,
    max_memory: int,
    logs: LogOptions | None,
) -> None:
    """Run steps until the pipe is closed. The end of each is sent before the next one starts."""
    set_up_process(max_memory)
    step_fields = StepLogFilter()
    if logs is not None:
        set_up_logs(logs, step_fields)
    try:
        app = load_app(app_name)
    except Exception as error:
        send(connection, Message(kind="broken", error=f"{describe(error)}\n{stack_of(error)}"))
        return
    step_fields.runs = app.running_steps
    if logs is not None:
        log_records_of_app(logs, step_fields)
    gc.freeze()  # imported objects live forever: scanning them in each collection costs a run a microsecond or two
    send(connection, Message(kind="ready"))
    pid = os.getpid()
    incoming = IncomingRuns(connection, permits)
    with suppress(EOFError, OSError, LeaseLost):
        while True:
            number, step, begin_before = incoming.next_run()
            if since_boot() >= begin_before:  # the worker was suspended: others may have the step
                connection.send_bytes(_ended(number, Ending(verb="hand_back")))
                continue
            channel = PipeChannel(connection, incoming, number, cancelled)
            ending = _run(app, app_name, step, channel)
            if os.getpid() != pid:
                os._exit(0)  # a process that the job forked and that returned here
            channel.close()
            _flush(sys.stdout)
            _flush(sys.stderr)
            connection.send_bytes(_ended(number, ending))


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except Exception:  # the job may have closed, broken or replaced it
        return


def _run(app: Stepwell, app_name: str, step: ClaimedStep, channel: PipeChannel) -> Ending:
    try:
        definition = app.jobs[step.action]
    except UnknownAction as error:
        where = f"{app_name}, as imported by the processes of this worker, does not define it; define it at import time"
        return Ending(verb="fail", reason=reasons.ERROR, error=f"{describe(error)}; {where}")
    return run_here(definition, RunningStep(step, channel, app.clock), step.arguments)


def _ended(number: int, ending: Ending) -> bytes:
    try:
        return msgspec.msgpack.encode(Message(kind="ended", number=number, ending=ending))
    except Exception as error:
        failed = Ending(
            verb="fail", reason=reasons.ERROR, error=f"the end of the run cannot be sent: {describe(error)}"
        )
        return msgspec.msgpack.encode(Message(kind="ended", number=number, ending=failed))
