"""Handing claims over to the executor, and taking back what has ended there or cannot begin."""

from __future__ import annotations

from stepwell.run.ending import Ending
from stepwell.run.executors import Executor
from stepwell.run.in_flight import InFlight
from stepwell.run.pace import MAX_WAIT_SECONDS, Pace
from stepwell.run.time_limits import TimeLimits


class Handover:
    """Between the ledger and the executor of one worker."""

    def __init__(self, executor: Executor, in_flight: InFlight, limits: TimeLimits, pace: Pace) -> None:
        self._executor = executor
        self._in_flight = in_flight
        self._limits = limits
        self._pace = pace

    def collect(self, now: float) -> bool:
        """The runs that have ended; says whether any has."""
        ended = self._executor.collect()
        for claim, ending in ended:
            if self._in_flight.runs.pop(claim.key, None) is not None:
                self._in_flight.add_ending(claim, ending, now)
                self._pace.learn(ending.duration)
        return bool(ended)

    def withdraw(self, *, stopping: bool) -> None:
        """What would have to wait too long behind another step begins in the next free slot, whichever it is."""
        for claim in reversed(self._executor.withdraw(everything=stopping)):
            if self._in_flight.runs.pop(claim.key, None) is not None:
                self._in_flight.waiting.appendleft(claim)

    def waits_until(self) -> float:
        """When what waits has waited too long: it is handed back."""
        return self._in_flight.waiting_since + MAX_WAIT_SECONDS

    def start_waiting(self, now: float, *, stopping: bool) -> None:
        """As many as can begin now."""
        # First: this worker may have been stopped until the steps were not its own any more.
        if self._in_flight.waiting and (stopping or now >= self.waits_until()):
            self._pace.stop_claiming_ahead()
            self._in_flight.end_waiting(Ending(verb="hand_back"), now)
        for claim in self._executor.start(self._in_flight.waiting, self._pace.seconds):
            self._in_flight.runs[claim.key] = self._limits.started(claim)

    def end_all(self, now: float) -> None:
        """What still runs is cut, and nothing is spent; what has ended by itself counts."""
        self.collect(now)
        for run in self._in_flight.runs.values():
            self._executor.abandon(run.claim)
            self._in_flight.add_ending(run.claim, Ending(verb="lost" if run.cancelled else "hand_back"), now)
        self._in_flight.runs.clear()
        self._in_flight.end_waiting(Ending(verb="hand_back"), now)
