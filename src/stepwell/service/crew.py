"""A dispatcher, a reaper and a worker in one process: what `stepwell up` and `app.run()` start."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from stepwell.run.worker import Worker
from stepwell.service.wakeup import StopSignal

if TYPE_CHECKING:
    from stepwell.app import Stepwell

# `timeout`, make and terminals send a signal to the process and to its group: two that mean one.
SAME_SIGNAL_SECONDS: Final = 0.1


class Crew:
    """Runs the worker in this thread and the others beside it. The first signal ends it gently, the second now."""

    def __init__(self, app: Stepwell, worker: Worker | None, *, dispatches: bool = True, reaps: bool = True) -> None:
        self._worker = worker
        self._stop = StopSignal()
        self._asked_at: float | None = None
        self._errors: list[BaseException] = []
        parts: list[tuple[str, Callable[[StopSignal], None]]] = []
        if dispatches:
            parts.append(("dispatcher", app.dispatcher().run))
        if reaps:
            parts.append(("reaper", app.reaper().run))
        self._threads = [
            threading.Thread(target=self._part, args=(run,), name=f"stepwell-{name}", daemon=True)
            for name, run in parts
        ]
        self._handlers: dict[int, Any] = {}

    def _part(self, run: Callable[[StopSignal], None]) -> None:
        try:
            run(self._stop)
        except BaseException as error:
            self._errors.append(error)
            self.stop()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take no new work, wait for what runs; when asked again, end it now."""
        now = time.monotonic()
        again = self._asked_at is not None and now - self._asked_at > SAME_SIGNAL_SECONDS
        self._asked_at = self._asked_at or now
        if self._worker is not None:
            self._worker.stop(at_once=again)
        else:
            self._stop.set()

    def run(self) -> None:
        """Work until stopped."""
        for thread in self._threads:
            thread.start()
        try:
            if self._worker is not None:
                self._worker.run()
            else:
                while not self._stop.wait(3600.0):
                    pass
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
        if self._errors:
            raise self._errors[0]
