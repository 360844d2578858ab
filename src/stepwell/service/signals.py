"""SIGINT and SIGTERM: whoever stops a service may send them to all of its processes, but one process decides."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def blocked() -> Iterator[None]:
    """A process that is started meanwhile does not get them, until it says otherwise."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class StopHandlers:
    """A handler for both. Python allows that in the main thread only; elsewhere, nothing is installed."""

    def __init__(self, handler: Callable[[], None]) -> None:
        self._handler = handler
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                self._before[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        self._handler()

    def restore(self) -> None:
        """The handlers that were there before. May be called from the handler itself."""
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)
