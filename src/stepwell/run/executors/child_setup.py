"""Setting up the process of a slot: its own group, its signals, its memory, and an end with its worker."""

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
    os.setsid()  # a group of its own: Ctrl-C is for the worker, and ending this process ends what it started
    _leave_signals_to_the_worker()
    _allow_fork_server_to_end()
    # A process like any other: multiprocessing would forbid a daemon to have children, and jobs may want some.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    if sys.platform == "linux":  # nobody is left behind when the worker is killed, and with it the fork server
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if max_memory:
        resource.setrlimit(resource.RLIMIT_AS, (max_memory, max_memory))


def _allow_fork_server_to_end() -> None:
    """It ends when nobody holds this file open any more; each of its children is given a copy."""
    server = getattr(forkserver, "_forkserver", None)
    file = getattr(server, "_forkserver_alive_fd", None)
    if server is not None and file is not None:
        server._forkserver_alive_fd = None
        os.close(file)


def _leave_signals_to_the_worker() -> None:
    """It decides when this process has to end.

    Handlers, because what is ignored would be ignored by every program that a job starts; and only here, because a job
    may have to end a process that it forked.
    """
    pid = os.getpid()

    def stay(number: int, frame: object) -> None:
        if os.getpid() != pid:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in STOP_SIGNALS:
        signal.signal(number, stay)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
