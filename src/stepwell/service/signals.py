"""SIGINT and SIGTERM: all processes of a service may receive them, but only one reacts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def blocked() -> Iterator[None]:
    """A process started in this block inherits the blocked signals, until it unblocks them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class StopHandlers:
    """A handler for both. Python allows signal handlers in the main thread only; elsewhere, nothing is installed."""

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
        """Restore the previous handlers. May be called from the handler itself."""
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)
