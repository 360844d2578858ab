"""Time limits and cancellations: which runs must end, and when.

Measured by the app's clock, like `step.timeout_reached`: a manual clock controls both.
"""

from __future__ import annotations

import logging
import math
from typing import Final

from stepwell.define.registry import Registry
from stepwell.model.claimed import Claim
from stepwell.model.clock import Clock
from stepwell.run.ending import Ending
from stepwell.run.endings import not_completed
from stepwell.run.executors import Executor
from stepwell.run.in_flight import InFlight, Run

_LOGGER: Final = logging.getLogger("stepwell.worker")


class TimeLimits:
    """Abandons the runs of one worker that exceed their time."""

    def __init__(self, clock: Clock, registry: Registry, executor: Executor, in_flight: InFlight) -> None:
        self._clock = clock
        self._registry = registry
        self._executor = executor
        self._in_flight = in_flight

    def started(self, claim: Claim) -> Run:
        """A run that starts now; it is abandoned `cooldown` seconds after its timeout."""
        timeout, cooldown = claim.step.timeout, claim.step.cooldown
        return Run(claim, self._clock.monotonic() + timeout + cooldown if timeout else None)

    def cancel(self, run: Run) -> None:
        """Ask the run to end: its result will be ignored. It is abandoned after its cooldown."""
        run.cancelled = True
        cooldown = run.claim.step.cooldown
        run.abandon_at = self._clock.monotonic() + cooldown if self._executor.can_end_runs else None
        self._executor.request_cancel(run.claim)

    def seconds_left(self) -> float:
        """Until the next run must be abandoned."""
        times = [run.abandon_at for run in self._in_flight.runs.values() if run.abandon_at is not None]
        return min(times) - self._clock.monotonic() if times else math.inf

    def abandon_overdue(self, now: float) -> bool:
        """Abandon the runs that exceed their time; returns whether a step returned to Pending."""
        if self.seconds_left() > 0:
            return False
        elapsed, returned = self._clock.monotonic(), False
        for run in [*self._in_flight.runs.values()]:
            if run.abandon_at is not None and elapsed >= run.abandon_at:
                self._executor.abandon(run.claim)
                del self._in_flight.runs[run.claim.key]
                self._in_flight.add_ending(run.claim, self._ending(run), now)
                returned |= not run.cancelled
        return returned

    def _ending(self, run: Run) -> Ending:
        if run.cancelled:
            return Ending(verb="lost")  # only to release the lease
        return abandoned(run.claim, self._registry)


def abandoned(claim: Claim, registry: Registry) -> Ending:
    """The ending of a run that exceeded its time: whatever it does or returns later is ignored."""
    step = claim.step
    message = f"run abandoned {step.cooldown:g} s after its timeout of {step.timeout:g} s"
    _LOGGER.warning("step %d (%s): %s", claim.step_id, step.action, message)
    return not_completed(step.cooldown, registry[step.action].policy.max_not_completed, message, cut=True)
