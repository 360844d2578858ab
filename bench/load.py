"""The work that every system is given, and what is written down about it.

Peers run in virtual environments of their own, so this page needs the standard library alone.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import random
import statistics
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from uuid import uuid4

NO_OP: Final = "no-op jobs"
ONE_BY_ONE: Final = "enqueue one by one"
IN_BULK: Final = "enqueue in bulk"
CHAINS: Final = "chains"
FAN_OUT: Final = "fan-out with a join"
PICK_UP: Final = "idle pick-up"
# In this order: the first three say what a job costs, the others what a workflow does.
WORK: Final = (NO_OP, ONE_BY_ONE, IN_BULK, CHAINS, FAN_OUT, PICK_UP)

JOBS_PER_SECOND: Final = "jobs/s"
STEPS_PER_SECOND: Final = "steps/s"
MILLISECONDS: Final = "ms"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything, and after how many seconds a slow system is cut off: its rate is known by then."""

    jobs: int = 10_000
    singles: int = 2_000
    bulk: int = 10_000
    chains: int = 200
    length: int = 10
    children: int = 1_000
    pick_ups: int = 100
    seconds: float = 60.0

    def as_json(self) -> str:
        return json.dumps(asdict(self))


FULL: Final = Sizes()
# Says nothing about speed: it shows that everything still runs.
QUICK: Final = Sizes(jobs=400, singles=100, bulk=1_000, chains=10, children=50, pick_ups=10, seconds=20.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """One number of one system; without a value, the detail says why there is none."""

    name: str
    database: str
    system: str
    value: float | None
    unit: str
    detail: str = ""
    cpu: float | None = None  # microseconds of all processes for each job

    @property
    def shown(self) -> str:
        if self.value is None:
            return "–"
        return f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:,.2f}"

    def as_json(self) -> str:
        value = None if self.value is None else round(self.value, 6)
        return json.dumps({**asdict(self), "value": value}, ensure_ascii=False)


def middle(figures: Sequence[Measured]) -> Measured:
    """One figure for several runs of the same: the median, with the least and the most in its detail.

    >>> middle([Measured("chains", "redis", "huey", value, "steps/s", "so many") for value in (7.0, 9.0, 2.0)])
    Measured(name='chains', database='redis', system='huey', value=7.0, unit='steps/s',
             detail='median of 3 runs, from 2.00 to 9.00; so many', cpu=None)

    One that could not be measured counts as such, however often the others could.
    """
    without = [figure for figure in figures if figure.value is None]
    if without or len(figures) == 1:
        return (without or figures)[0]
    in_order = sorted(figures, key=lambda figure: figure.value or 0.0)
    median = statistics.median(figure.value or 0.0 for figure in figures)
    runs = f"median of {len(figures)} runs, from {in_order[0].shown} to {in_order[-1].shown}"
    return replace(figures[0], value=median, detail=f"{runs}; {figures[0].detail}")


def percentiles(seconds: Sequence[float]) -> Iterator[tuple[str, float]]:
    """The names and values of the pick-up figures, in milliseconds.

    >>> dict(percentiles([0.001] * 90 + [0.1] * 10))
    {'idle pick-up p50': 1.0, 'idle pick-up p95': 100.0, 'idle pick-up p99': 100.0}
    """
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    for percent in (50, 95, 99):
        yield f"{PICK_UP} p{percent}", round(1000 * cuts[percent - 1], 3)


def idle_for_a_while() -> None:
    """Before each pick-up: up to a second, the longest interval at which a peer polls.

    A short pause would follow each poll closely, and so always meet the longest wait for the next one.
    """
    time.sleep(random.uniform(0.02, 1.02))


def figure_names(work: str) -> list[str]:
    """The figures of one kind of work.

    >>> figure_names(CHAINS), figure_names(PICK_UP)
    (['chains'], ['idle pick-up p50', 'idle pick-up p95', 'idle pick-up p99'])
    """
    return [f"{work} p{percent}" for percent in (50, 95, 99)] if work == PICK_UP else [work]


def unit_of(work: str) -> str:
    if work == PICK_UP:
        return MILLISECONDS
    return STEPS_PER_SECOND if work in (CHAINS, FAN_OUT) else JOBS_PER_SECOND


class Ledger:
    """A directory in which every job notes the moment it ran.

    Jobs run in any process and thread of any system; the monotonic clock is the same for all of them. Each process has
    a file of its own, mapped into memory: a note is no system call, which would release the interpreter's lock and
    so measure how threads take turns.
    """

    _MOMENT: Final = struct.Struct("q")
    _ROOM: Final = 1 << 20  # notes of one process; pages that are never touched take no space

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._pid = 0
        self._next: Iterator[int] = iter(())
        self._notes = memoryview(b"")
        self._read: dict[Path, list[int]] = {}

    def mark(self) -> None:
        if self._pid != os.getpid():
            with self._lock:
                if self._pid != os.getpid():
                    self._open()
        self._notes[next(self._next)] = time.monotonic_ns()

    def _open(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        with (self._path / uuid4().hex).open("x+b") as file:
            file.truncate(self._ROOM * self._MOMENT.size)
            self._notes = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        self._next = itertools.count()
        self._pid = os.getpid()

    def moments(self) -> list[float]:
        """All that is noted, in seconds of the monotonic clock, in order."""
        self._read_on()
        return sorted(moment / 1e9 for notes in self._read.values() for moment in notes)

    def count(self) -> int:
        self._read_on()
        return sum(map(len, self._read.values()))

    def _read_on(self) -> None:
        for path in self._path.iterdir() if self._path.exists() else ():
            known = self._read.setdefault(path, [])
            with path.open("rb") as file:
                file.seek(len(known) * self._MOMENT.size)
                while chunk := file.read(self._MOMENT.size * 512):
                    notes = [moment for (moment,) in self._MOMENT.iter_unpack(chunk)]
                    known += itertools.takewhile(bool, notes)
                    if not all(notes):
                        break


def rate(moments: Sequence[float]) -> float:
    """Jobs per second, from the first to the last: how long a worker takes to start does not count.

    >>> rate([1.0, 1.5, 2.0])
    2.0
    """
    if len(moments) < 2:
        raise RuntimeError(f"only {len(moments)} of the jobs ran before the time was up")
    return (len(moments) - 1) / (moments[-1] - moments[0])
