"""Waking a thread that waits for files: from another thread, or from a signal handler."""

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
        """Wake whoever waits. Of many at once, the first is enough (a system call for each is not free)."""
        if not self._is_set_off:
            self._is_set_off = True
            with suppress(OSError):
                os.write(self._writer, b"!")

    def clear(self) -> None:
        """Before looking at what there is: a later `wake` wakes us again."""
        with suppress(BlockingIOError):
            while os.read(self._reader, 4096):
                pass
        self._is_set_off = False

    def wait(self, seconds: float) -> None:
        """Sleep until woken, but no longer than this. Real time: it is another thread that we wait for."""
        poll = select.poll()
        poll.register(self, select.POLLIN)
        poll.poll(1000 * seconds)

    def __del__(self) -> None:
        os.close(self._reader)
        os.close(self._writer)
