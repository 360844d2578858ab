"""A process that is in the way of others, named for the person who has to end that."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that holds a lock of a database file."""

    pid: int
    command: str
    is_stopped: bool
    lock: str
    file: str

    def __str__(self) -> str:
        """
        >>> str(LockHolder(4711, "stepwell up", False, "the write lock", "jobs.db"))
        'process 4711 (stepwell up) holds the write lock of jobs.db'
        """
        if self.pid == os.getpid():
            return f"this process itself holds {self.lock} of {self.file}"
        name = f"process {self.pid}" + (f" ({self.command})" if self.command else "")
        if not self.is_stopped:
            return f"{name} holds {self.lock} of {self.file}"
        return (
            f"{name} is stopped and holds {self.lock} of {self.file}: continue it with `kill -CONT {self.pid}`, "
            f"or end it with `kill -9 {self.pid}`"
        )
