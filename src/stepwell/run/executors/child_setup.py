"""Setting up the process of a slot: its process group, signals and memory limit, and its death with its worker."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import sys
from contextlib import suppress
from multiprocessing import forkserver
from typing import Final

from stepwell.service.signals import STOP_SIGNALS

_PR_SET_PDEATHSIG: Final = 1


def set_up_process(max_memory: int) -> None:
    os.setsid()  # own process group: Ctrl-C goes to the worker only, and killing the group kills what a job started
    _leave_signals_to_the_worker()
    _allow_fork_server_to_end()
    # multiprocessing does not let daemons have children, but jobs may start processes.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    if sys.platform == "linux":  # die with the worker: killing it also ends the fork server, our parent
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if max_memory:
        resource.setrlimit(resource.RLIMIT_AS, (max_memory, max_memory))


def _allow_fork_server_to_end() -> None:
    """The fork server exits when no process holds this file open; each of its children inherits a copy."""
    server = getattr(forkserver, "_forkserver", None)
    file = getattr(server, "_forkserver_alive_fd", None)
    if server is not None and file is not None:
        server._forkserver_alive_fd = None
        os.close(file)


def _leave_signals_to_the_worker() -> None:
    """The worker decides when this process ends.

    With handlers, because SIG_IGN would be inherited by every program that a job starts. Only in this process, because
    a job must be able to terminate a process that it forked.
    """
    pid = os.getpid()

    def stay(number: int, frame: object) -> None:
        if os.getpid() != pid:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in STOP_SIGNALS:
        signal.signal(number, stay)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
