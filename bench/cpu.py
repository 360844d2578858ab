"""The CPU time of processes, read from outside: it depends far less than throughput on what else the machine does.

Linux only, and the standard library alone: peers run in virtual environments of their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_CPUCLOCK_SCHED: Final = 2  # of the kernel's clock ids: the time of all threads of a process, in nanoseconds


def seconds_of(pids: Iterable[int]) -> float:
    """What these processes have used so far, in user and kernel mode; those that have ended count as nothing.

    >>> import os
    >>> 0 < seconds_of([os.getpid()]) <= time.process_time()
    True
    """
    total = 0.0
    for pid in set(pids):
        with suppress(OSError):
            total += time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)
    return total


def descendants_of(*roots: int) -> set[int]:
    """These processes and all that they started, directly or not."""
    parents = dict(_parents())
    found = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def postgres_backends(database: str) -> set[int]:
    """The processes of PostgreSQL that serve the connections to one database: it is part of their title."""
    return {pid for pid in _pids() if (title := _title(pid)).startswith("postgres:") and f" {database} " in title}


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())


def _parents() -> Iterator[tuple[int, int]]:
    for pid in _pids():
        with suppress(OSError):
            # The second field is the name in brackets, which may contain anything.
            yield pid, int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def _title(pid: int) -> str:
    with suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
