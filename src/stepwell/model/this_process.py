"""The names by which rows say which process wrote them."""

from __future__ import annotations

import os
import secrets
import socket


def this_process() -> str:
    """Host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def unique_name() -> str:
    """A name for one worker, dispatcher or other part of this process, unlike that of any other, also of a dead one.

    >>> host, pid, random = unique_name().rsplit(":", 2)
    >>> f"{host}:{pid}" == this_process(), len(random)
    (True, 8)
    """
    return f"{this_process()}:{secrets.token_hex(4)}"
