"""Who holds the locks of a SQLite file, for what to do about suspended processes.

SQLite waits for a suspended process for ever, and says only "database is locked". Linux lists the holders of locks in
/proc/locks. Elsewhere, and for a process in another container, no holder is found.

Reading that list takes milliseconds, because the kernel first waits for everything that locks and unlocks. So first
`fcntl` is asked whether another process holds the lock at all. That needs a descriptor of the -shm file, which must
stay open: closing it would drop all locks that SQLite holds on this file in this process.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stepwell.store.lock_holder import LockHolder
from stepwell.store.os_processes import command_of, is_stopped

LOCKS: Final = Path("/proc/locks")
# Bytes of the -shm file (sqlite.org/walformat.html): what a writer locks (WAL_WRITE_LOCK), and what readers lock. The
# lock before those, WAL_READ_LOCK(0), is for readers that need nothing of the log.
WRITE_LOCK: Final = range(120, 121)
READ_LOCKS: Final = range(124, 128)
# Most locks are held for a millisecond, but for those of a suspended process. How often to ask, and the pause between:
LOOKS: Final = 4
LOOK_SECONDS: Final = 0.0005

_FLOCK: Final = struct.Struct("@hhqqi")  # of Linux with 64 bits: type, whence, start, length, process


class _ShmFiles:
    """The descriptors, by device and inode. Locks belong to the process, and so do these."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()
        # A fork does not wait for this lock: whoever wants it may be in a transaction, and a fork waits for those.
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def descriptor(self, database: Path) -> int:
        path = database.with_name(f"{database.name}-shm")
        with self._lock:
            status = os.stat(path)
            key = status.st_dev, status.st_ino
            if key not in self._open or _is_deleted(self._open[key]):  # an inode is used again after a deletion
                self._close_deleted()
                self._open[key] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            return self._open[key]

    def _close_deleted(self) -> None:
        """SQLite deletes the file with its last connection: there are no locks on it that this could drop."""
        for key, shm in list(self._open.items()):
            if _is_deleted(shm):
                os.close(self._open.pop(key))


def _is_deleted(shm: int) -> bool:
    return os.fstat(shm).st_nlink == 0


_shm_files: Final = _ShmFiles()


def writer_of(database: Path) -> LockHolder | None:
    """The process that holds the write lock at this moment: any writer does, for some milliseconds."""
    for pid in _holders(database, "WRITE", WRITE_LOCK):
        return LockHolder(pid, command_of(pid), is_stopped(pid), "the write lock", database.name)
    return None


def suspended_writer_of(database: Path) -> LockHolder | None:
    """A process that was suspended in the middle of a write."""
    holder = writer_of(database) if _is_held_by_others(database, WRITE_LOCK) else None
    return holder if holder is not None and holder.is_stopped else None


def suspended_reader_of(database: Path) -> LockHolder | None:
    """A process that was suspended in the middle of a read."""
    for pid in _holders(database, "READ", READ_LOCKS) if _is_held_by_others(database, READ_LOCKS) else ():
        if is_stopped(pid):
            return LockHolder(pid, command_of(pid), True, "a read lock", database.name)
    return None


def _is_held_by_others(database: Path, bytes_: range) -> bool:
    """Whether, at each of some looks, another process held a lock there; True if that could not be asked."""
    if not LOCKS.exists():
        return False
    try:
        shm = _shm_files.descriptor(database)
        for look in range(LOOKS):
            if look:
                time.sleep(LOOK_SECONDS)
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, bytes_.start, len(bytes_), 0)
            if _FLOCK.unpack(fcntl.fcntl(shm, fcntl.F_GETLK, asked))[0] == fcntl.F_UNLCK:
                return False
    except OSError:
        pass
    return True


def _holders(database: Path, access: str, wanted: range) -> Iterator[int]:
    """The processes that hold such a lock on one of these bytes."""
    try:
        file = os.stat(database.with_name(f"{database.name}-shm"))
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return
    name = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    for line in lines:
        match line.split():
            # 1: POSIX  ADVISORY  WRITE 4711 fe:00:2154162 120 120
            case [_, "POSIX", _, kind, pid, on, first, last] if kind == access and on == name and last != "EOF":
                # Locks of one process on bytes side by side are listed as one.
                if int(pid) > 0 and int(first) < wanted.stop and int(last) >= wanted.start:
                    yield int(pid)
