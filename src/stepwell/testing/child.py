"""Running a function in a forked child process that may be killed."""

from __future__ import annotations

import os
import signal
import struct
import traceback
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from mmap import mmap
from typing import Final, NoReturn

from stepwell.model.errors import StepwellError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FINISHED: Final = 86  # an exit code that no job uses by accident
_FORMAT: Final = struct.Struct("qQ?")


class Progress:
    """How far a child process got, in memory that it shares with its parent and that survives it."""

    def __init__(self, now: datetime) -> None:
        self._memory = mmap(-1, _FORMAT.size)
        self.write(now, 0, begun=False)

    def write(self, now: datetime, commits: int, *, begun: bool) -> None:
        """The time of its clock, the commits that it has made, and whether everything is enqueued."""
        self._memory[:] = _FORMAT.pack((now - _EPOCH) // timedelta(microseconds=1), commits, begun)

    @property
    def now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self._read()[0])

    @property
    def commits(self) -> int:
        return self._read()[1]

    @property
    def begun(self) -> bool:
        return self._read()[2]

    def _read(self) -> tuple[int, int, bool]:
        microseconds, commits, begun = _FORMAT.unpack(self._memory[:])
        return microseconds, commits, begun


def run_in_child(work: Callable[[], None]) -> bool:
    """Run the function in a child process; returns whether it ended by itself. What it raises is raised here."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Other threads of this process, such as those of a connection pool, do not exist in the child; it uses nothing
        # of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _be_child(work, writing)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        error = pipe.read()
    _, status = os.waitpid(pid, 0)
    if error:
        raise StepwellError(f"the child process raised an error:\n{error}")
    return os.waitstatus_to_exitcode(status) == _FINISHED


def _be_child(work: Callable[[], None], writing: int) -> NoReturn:
    try:
        work()
    except BaseException:
        os.write(writing, traceback.format_exc().encode())
    finally:
        os._exit(_FINISHED)  # nothing that the parent has prepared for its own exit may run here


def kill_this_process() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")
