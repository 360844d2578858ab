"""Opening a database on first use, closing it, and what a fork makes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from stepwell.model.errors import AppClosed, DatabaseUnavailable
from stepwell.store.connections import Connections
from stepwell.store.forks import FORK_SECONDS


class Opening:
    """The connections of one database: none, being prepared, or open.

    `connect` opens them; `prepare` runs once after it, before any other use.
    """

    def __init__(self, connect: Callable[[], Connections], prepare: Callable[[], None]) -> None:
        self._connect = connect
        self._prepare = prepare
        self._lock = threading.RLock()
        self._ready: Connections | None = None
        self._preparing: Connections | None = None  # connected, but the schema is not checked yet
        self._is_closed = False
        self._lost: str | None = None  # why it cannot be opened in this process
        self._inherited: Connections | None = None  # while the process forks
        self._is_held_for_fork = False

    def connections(self) -> Connections:
        """The open connections; opens them first if need be."""
        return self._ready or self._open_once()

    def reopen(self) -> None:
        """Open it also after `close`."""
        with self._lock:
            self._is_closed = False
            self._open_once()

    def _open_once(self) -> Connections:
        with self._lock:  # other threads wait here; the preparing thread may re-enter
            if (connections := self._ready or self._preparing) is not None:
                return connections
            if self._is_closed:
                raise AppClosed("this Stepwell was closed; nothing was done. Call `open()` on it to use it again")
            if self._lost is not None:
                raise DatabaseUnavailable(self._lost)
            connections = self._connect()
            self._preparing = connections
            try:
                self._prepare()
            except BaseException:
                connections.close()
                raise
            finally:
                self._preparing = None
            self._ready = connections
            return connections

    def close(self) -> None:
        """Close all connections. Until `reopen`, every use is an error."""
        with self._lock:
            connections, self._ready = self._ready, None
            self._is_closed, self._lost = True, None
            if connections is not None:
                connections.close()

    # forks ----------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        self._is_held_for_fork = self._lock.acquire(timeout=FORK_SECONDS)
        self._inherited = self._ready or self._preparing
        if self._inherited is not None:
            self._inherited.before_fork()

    def after_fork_in_parent(self) -> None:
        inherited, self._inherited = self._inherited, None
        if inherited is not None:
            inherited.after_fork_in_parent()
        if self._is_held_for_fork:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """The next use in the child opens connections of its own."""
        inherited, self._inherited = self._inherited, None
        self._lock = threading.RLock()
        self._ready = self._preparing = None
        if inherited is not None:
            self._lost = inherited.after_fork_in_child()
