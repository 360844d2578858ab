"""Forks: a child process must not use a connection of its parent, nor close it on the parent's behalf.

Everything that holds a connection registers here. It can close the connection before a fork (SQLite), or drop it in the
child without sending anything to the server (PostgreSQL).
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Final, Protocol
from weakref import WeakSet

# A fork waits this long for a transaction of another thread. A healthy one takes milliseconds.
FORK_SECONDS: Final = 10.0


class Inheritable(Protocol):
    """Something that a fork would copy into the child. The calls come from the thread that forks."""

    def before_fork(self) -> None:
        """Hold what must not change while the process is copied."""

    def after_fork_in_parent(self) -> None:
        """Release it again."""

    def after_fork_in_child(self) -> None:
        """Forget the parent's connections, and replace the locks: the threads that held them do not exist here."""


class _Forks:
    """Every registered object of this process."""

    def __init__(self) -> None:
        self._objects: WeakSet[Inheritable] = WeakSet()
        self._lock = threading.RLock()  # held by the thread that forks
        self._held: list[Inheritable] = []

    def add(self, inheritable: Inheritable) -> None:
        with self._lock:
            self._objects.add(inheritable)

    def before(self) -> None:
        self._lock.acquire()
        self._held = list(self._objects)
        for held in self._held:
            held.before_fork()

    def after_in_parent(self) -> None:
        held, self._held = self._held, []
        for inheritable in held:
            inheritable.after_fork_in_parent()
        self._lock.release()

    def after_in_child(self) -> None:
        self._lock = threading.RLock()
        held, self._held = self._held, []
        for inheritable in held:
            inheritable.after_fork_in_child()


_forks: Final = _Forks()
os.register_at_fork(before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_forks.after_in_child)

survive_forks: Final = _forks.add


def abandon_socket(descriptor: int) -> None:
    """Point an inherited descriptor at nothing.

    The session at the other end belongs to the parent: closing the connection properly would end it, and leaving it
    open would keep it alive after the parent has died. The number stays taken, because the driver still knows it.
    """
    with suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, descriptor, inheritable=False)
        os.close(nothing)
