"""A bell that wakes whoever waits for files: rung by threads and by signal handlers."""

from __future__ import annotations

import os
import select
from contextlib import suppress


class WakePipe:
    """A pipe to oneself."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._is_set_off = False

    def fileno(self) -> int:
        return self._reader

    def wake(self) -> None:
        """Wake whoever waits. Many may ring at once; the first is enough (a system call for each is not)."""
        if not self._is_set_off:
            self._is_set_off = True
            with suppress(OSError):
                os.write(self._writer, b"!")

    def clear(self) -> None:
        """Before looking at what there is: whoever rings after that wakes us again."""
        with suppress(BlockingIOError):
            while os.read(self._reader, 4096):
                pass
        self._is_set_off = False

    def __del__(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class StopSignal(WakePipe):
    """Tells loops to come to an end. It stays rung."""

    def __init__(self) -> None:
        super().__init__()
        self._set = False

    def set(self) -> None:
        self._set = True
        self.wake()

    def is_set(self) -> bool:
        return self._set

    def wait(self, seconds: float) -> bool:
        """Sleep, but not beyond the end."""
        if not self._set and seconds > 0:
            poll = select.poll()
            poll.register(self, select.POLLIN)
            poll.poll(1000 * seconds)
        return self._set
