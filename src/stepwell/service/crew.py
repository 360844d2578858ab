"""The crew: starts a list of parts, stops them together, and raises the first error that ended one of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Self

from stepwell.service.loop import Loop
from stepwell.service.part import Part
from stepwell.service.signals import StopHandlers

# `timeout`, make and terminals signal a process and its group, so one request to stop can arrive twice: microseconds
# apart, or up to a tenth of a second on an overloaded machine. A person takes longer than half a second to notice that
# the first signal was not enough.
SAME_SIGNAL_SECONDS: Final = 0.5


class Crew:
    """Runs the first part in the calling thread and the others in threads of their own.

    The others are stopped when the first is done, so that dispatching and reaping continue during the grace period of a
    worker. In a `with` block of the main thread, SIGINT and SIGTERM stop it: the first signal gracefully, the second at
    once.
    """

    def __init__(self, parts: Sequence[Part], *, on_signal: Callable[[], None] | None = None) -> None:
        """`on_signal` is called in the handler of the first signal: it must not use buffered streams or locks."""
        self._first, *self._others = [Loop(part) for part in parts]
        self._on_first_signal = on_signal
        self._handlers = StopHandlers(self._on_signal)
        self._stop_requested_at: float | None = None
        self._is_at_once = False
        self._errors: list[BaseException] = []

    def __enter__(self) -> Self:
        self._handlers.install()
        return self

    def __exit__(self, *error: object) -> None:
        self._handlers.restore()

    def run(self) -> None:
        """Run until stopped."""
        threads = [
            threading.Thread(target=self._run_beside, args=(loop,), name=f"stepwell-{loop.part.name}", daemon=True)
            for loop in self._others
        ]
        for thread in threads:
            thread.start()
        try:
            self._first.run()
        finally:
            for loop in self._others:
                loop.stop()
            for thread in threads:
                thread.join()
        if self._errors:
            raise self._errors[0]

    def _run_beside(self, loop: Loop) -> None:
        try:
            loop.run()
        except BaseException as error:
            self._errors.append(error)
            self._first.stop()

    def stop(self) -> None:
        """Take no new work and wait for what runs; a second call ends it at once. Safe in any thread."""
        now = time.monotonic()
        if self._stop_requested_at is None:
            self._stop_requested_at = now
            self._first.stop()
        elif now - self._stop_requested_at > SAME_SIGNAL_SECONDS:
            self._is_at_once = True
            for loop in [self._first, *self._others]:
                loop.stop(at_once=True)

    def finish(self) -> None:
        """Take no new work and wait for what runs, as the first `stop` does. Repeated calls change nothing."""
        self._first.stop()

    def _on_signal(self) -> None:
        is_first = self._stop_requested_at is None
        self.stop()
        if is_first and self._on_first_signal is not None:
            self._on_first_signal()
        if self._is_at_once:
            self._handlers.restore()  # a third signal kills a process that hangs

    def report(self) -> str:
        """What each part has done, for the last line of output of a command."""
        reports = (loop.part.report() for loop in [self._first, *self._others])
        return "; ".join(filter(None, reports))
