"""Signals are for the worker alone. Who stops a service may send them to all of its processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

WORKER_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def blocked() -> Iterator[None]:
    """A process that is started meanwhile does not get them, until it says otherwise."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WORKER_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
