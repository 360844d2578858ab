"""Child processes of a test, which may be killed."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

_expendable: Final = ContextVar("stepwell_expendable", default=False)


def mark_expendable() -> None:
    """This process was started to be killed."""
    _expendable.set(True)


def is_expendable() -> bool:
    return _expendable.get()
