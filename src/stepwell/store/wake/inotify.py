"""Notification when a file is written, without polling: inotify (Linux only)."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

_IN_MODIFY: Final = 0x2


def watch_file(path: Path) -> int | None:
    """A descriptor that becomes readable whenever the file is written; None where inotify is not available."""
    if sys.platform != "linux":
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            return None
        if libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) < 0:
            os.close(descriptor)
            return None
    except (OSError, AttributeError):
        return None
    return descriptor
