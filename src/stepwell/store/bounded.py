"""Reads with a time limit: those of people who look, which must not get in the way of the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_SECONDS: Final[ContextVar[float | None]] = ContextVar("stepwell_read_seconds", default=None)


@contextmanager
def bounded_reads(seconds: float) -> Iterator[None]:
    """Reads of this thread or task may take this long; then they raise `ReadTookTooLong`.

    On SQLite a file is read on connections of their own: a long read does not hold up that of a worker beside it.
    """
    token = _SECONDS.set(seconds)
    try:
        yield
    finally:
        _SECONDS.reset(token)


def read_seconds() -> float | None:
    """The limit that applies here; None: there is none."""
    return _SECONDS.get()
