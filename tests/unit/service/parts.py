"""A part for tests: it notes what is done to it and does what the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from stepwell.service.part import Part
from stepwell.store import Wake
from stepwell.store.wake import Listener, NoListener

WAIT_SECONDS = 30.0  # for what takes milliseconds on a quiet machine
HOUR = 3600.0  # a pause that no test waits for


class FakePart(Part):
    """Sleeps for an hour after each round, unless it is told otherwise."""

    def __init__(self, name: str = "fake", work: Callable[[FakePart], float] = lambda part: HOUR) -> None:
        self.name = name
        self._work = work
        self.calls: list[str] = []
        self.wakes: list[Collection[Wake]] = []
        self.stops: list[bool] = []
        self.needs_grace = False  # whether it has more to do after a gentle stop
        self.heard: Listener = NoListener()
        self.waits_for: list[Any] = []
        self.said = ""

    @property
    def rounds(self) -> int:
        return len(self.wakes)

    def round(self, wakes: Collection[Wake]) -> float:
        self.wakes.append(wakes)
        return self._work(self)

    def listen(self) -> Listener:
        return self.heard

    def files(self) -> Sequence[Any]:
        return self.waits_for

    def open(self) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def stop(self, *, at_once: bool = False) -> None:
        self.stops.append(at_once)

    def is_done(self) -> bool:
        return not self.needs_grace or True in self.stops

    def report(self) -> str:
        return self.said


@contextmanager
def in_thread(run: Callable[[], None]) -> Iterator[threading.Thread]:
    """It has to end with the block."""
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield thread
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def wait(event: threading.Event) -> None:
    assert event.wait(WAIT_SECONDS)
