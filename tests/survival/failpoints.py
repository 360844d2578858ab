"""Failpoints: points in the life of a step or a tick at which a process of these tests kills or suspends itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from stepwell.dispatch.tick import Tick
from stepwell.run.claim import Claimer
from stepwell.run.exchange import Exchange
from stepwell.run.finish import Finisher
from stepwell.run.handover import Handover

VARIABLE = "STEPWELL_TEST_FAILPOINT"
POINTS = (
    "before the claim is committed",
    "after the claim, before the start",
    "after the end, before it is written",
    "after the end is committed",
)
IN_A_TICK = "in a tick, after its lock is committed"
SUSPENDED = "suspended "


def arm(folder: Path) -> None:
    """Install the failpoint that the environment names."""
    point = os.environ.get(VARIABLE)
    number = signal.SIGSTOP if point is not None and point.startswith(SUSPENDED) else signal.SIGKILL
    fired = folder / "fired"

    def fire() -> None:
        """With a signal, so that not even a `finally` runs."""
        try:
            os.close(os.open(fired, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), number)

    claim, start, write, written = Claimer.claim, Handover.start_waiting, Finisher._write_plain, Exchange._written
    phases = Tick._state_phases

    def claiming(self: Claimer, *arguments: Any) -> Any:
        claims = claim(self, *arguments)
        if claims:
            fire()
        return claims

    def starting(self: Handover, now: float, *, stopping: bool) -> None:
        if self._in_flight.waiting:
            fire()
        start(self, now, stopping=stopping)

    def writing(self: Finisher, tx: Any, endings: Any) -> Any:
        if endings:
            fire()
        return write(self, tx, endings)

    def after_commit(self: Exchange, endings: Any, states: Any) -> None:
        if endings:
            fire()
        written(self, endings, states)

    def ticking(self: Tick, lock: Any, report: Any) -> bool:
        fire()
        return phases(self, lock, report)

    match point and point.removeprefix(SUSPENDED):
        case None:
            pass
        case "before the claim is committed":
            Claimer.claim = claiming  # type: ignore[method-assign, assignment]
        case "after the claim, before the start":
            Handover.start_waiting = starting  # type: ignore[method-assign]
        case "after the end, before it is written":
            Finisher._write_plain = writing  # type: ignore[method-assign]
        case "after the end is committed":
            Exchange._written = after_commit  # type: ignore[method-assign]
        case failpoint if failpoint == IN_A_TICK:
            Tick._state_phases = ticking  # type: ignore[method-assign]
        case _:
            raise ValueError(f"unknown failpoint {point!r}")
