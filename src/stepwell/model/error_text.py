"""Errors as text that can be stored, even if the exception's own `__str__` raises."""

from __future__ import annotations

import traceback
from typing import Final

from stepwell.model import codec
from stepwell.model.redaction import redacted

MAX_ERROR: Final = 8_000
MAX_STACK: Final = 64_000


def describe(error: BaseException) -> str:
    """The type and the text of an error.

    >>> describe(KeyError("user")), describe(ValueError())
    ("KeyError: 'user'", 'ValueError')
    """
    try:
        text = str(error)
    except Exception:
        text = "<its text cannot be printed>"
    shown = redacted(f"{type(error).__name__}: {text}" if text else type(error).__name__)
    return codec.clean_text(shown, MAX_ERROR)


def stack_of(error: BaseException) -> str:
    """Its traceback."""
    try:
        return codec.clean_text(redacted("".join(traceback.format_exception(error))), MAX_STACK)
    except Exception:
        return "<its stack cannot be printed>"
