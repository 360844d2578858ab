"""Waking a thread that waits for files: from another thread, or from a signal handler."""

from __future__ import annotations

import os
import select
from contextlib import suppress


class WakePipe:
    """A self-pipe."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._is_set = False

    def fileno(self) -> int:
        return self._reader

    def wake(self) -> None:
        """Wake the waiting thread. Only the first call after `clear` writes: each write is a system call."""
        if not self._is_set:
            self._is_set = True
            with suppress(OSError):
                os.write(self._writer, b"!")

    def clear(self) -> None:
        """Call this before checking for work, so that a later `wake` is not lost."""
        with suppress(BlockingIOError):
            while os.read(self._reader, 4096):
                pass
        self._is_set = False

    def wait(self, seconds: float) -> None:
        """Sleep until woken, at most this long. Real time, because another thread wakes us."""
        poll = select.poll()
        poll.register(self, select.POLLIN)
        poll.poll(1000 * seconds)

    def __del__(self) -> None:
        os.close(self._reader)
        os.close(self._writer)
