"""Passing claims to the executor, and collecting the runs that have ended or cannot start."""

from __future__ import annotations

from stepwell.run.claim_ahead import MAX_WAIT_SECONDS, ClaimAhead
from stepwell.run.ending import Ending
from stepwell.run.executors import Executor
from stepwell.run.in_flight import InFlight
from stepwell.run.time_limits import TimeLimits


class Handover:
    """Between the in-flight claims and the executor of one worker."""

    def __init__(self, executor: Executor, in_flight: InFlight, limits: TimeLimits, claim_ahead: ClaimAhead) -> None:
        self._executor = executor
        self._in_flight = in_flight
        self._limits = limits
        self._claim_ahead = claim_ahead

    def collect(self, now: float) -> bool:
        """Collect the runs that have ended; returns whether there were any."""
        ended = self._executor.collect()
        for claim, ending in ended:
            if self._in_flight.runs.pop(claim.key, None) is not None:
                self._in_flight.add_ending(claim, ending, now)
                if ending.verb != "hand_back":  # it may not even have started
                    self._claim_ahead.learn(ending.duration)
        return bool(ended)

    def withdraw(self, *, stopping: bool) -> None:
        """Prefetched steps that would wait too long for their slot start in the next free slot instead."""
        for claim in reversed(self._executor.withdraw(everything=stopping)):
            if self._in_flight.runs.pop(claim.key, None) is not None:
                self._in_flight.waiting.appendleft(claim)

    def waits_until(self) -> float:
        """When the waiting claims have waited too long: they return to Pending."""
        return self._in_flight.waiting_since + MAX_WAIT_SECONDS

    def start_waiting(self, now: float, *, stopping: bool) -> None:
        """Start as many waiting claims as possible."""
        # First, because this worker may have been suspended for so long that it lost the leases.
        if self._in_flight.waiting and (stopping or now >= self.waits_until()):
            self._claim_ahead.stop()
            self._in_flight.end_waiting(Ending(verb="hand_back"), now)
        while self._in_flight.waiting and not self._in_flight.waiting[0].may_begin():
            self._in_flight.add_ending(self._in_flight.waiting.popleft(), Ending(verb="hand_back"), now)
        for claim in self._executor.start(self._in_flight.waiting, self._claim_ahead.seconds_per_step):
            self._in_flight.runs[claim.key] = self._limits.started(claim)

    def end_all(self, now: float) -> None:
        """Collect the runs that have ended; abandon the others and return their steps to Pending, no retry spent."""
        self.collect(now)
        for run in self._in_flight.runs.values():
            self._executor.abandon(run.claim)
            self._in_flight.add_ending(run.claim, Ending(verb="lost" if run.cancelled else "hand_back"), now)
        self._in_flight.runs.clear()
        self._in_flight.end_waiting(Ending(verb="hand_back"), now)
