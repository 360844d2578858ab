"""Errors as text that can be stored, even if the exception's own `__str__` raises."""

from __future__ import annotations

import importlib
import os
import traceback
from typing import Final

from stepwell.model import codec
from stepwell.model.redaction import redacted

MAX_ERROR: Final = 8_000
MAX_STACK: Final = 64_000
_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep
_BEFORE_THE_USER: Final = (_PACKAGE, importlib.__file__, "<frozen importlib")
_LIKE_A_USER: Final = tuple(f"{_PACKAGE}{room}{os.sep}" for room in ("demo", "testing"))  # they define jobs


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
    """Its traceback, and those of the errors behind it, from the first frame of the user's code on."""
    try:
        summary = traceback.TracebackException.from_exception(error)
        _drop_our_frames(summary)
        return codec.clean_text(redacted("".join(summary.format())), MAX_STACK)
    except Exception:
        return "<its stack cannot be printed>"


def _drop_our_frames(summary: traceback.TracebackException) -> None:
    """Drop the frames of Stepwell, and of the import system, that led to the user's code."""
    waiting, seen = [summary], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        first = next((place for place, frame in enumerate(one.stack) if not _is_ours(frame.filename)), 0)
        del one.stack[:first]
        waiting += [another for another in (one.__cause__, one.__context__, *(one.exceptions or ())) if another]


def _is_ours(file: str) -> bool:
    return file.startswith(_BEFORE_THE_USER) and not file.startswith(_LIKE_A_USER)
