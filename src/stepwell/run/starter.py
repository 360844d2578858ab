"""Starting what was claimed: in the executor's slots as they become free, or not at all if that takes too long."""

from __future__ import annotations

from stepwell.run.ending import Ending
from stepwell.run.executors import Executor
from stepwell.run.ledger import Ledger
from stepwell.run.pace import HAND_BACK_SECONDS, Pace
from stepwell.run.time_limits import TimeLimits


class Starter:
    """Moves claims from waiting to running, and back."""

    def __init__(self, executor: Executor, ledger: Ledger, limits: TimeLimits, pace: Pace) -> None:
        self._executor = executor
        self._ledger = ledger
        self._limits = limits
        self._pace = pace

    def hands_back_at(self) -> float:
        """When what waits has waited too long."""
        return self._ledger.waiting_since + HAND_BACK_SECONDS

    def start_waiting(self, now: float, *, stopping: bool) -> None:
        """As many as can begin now."""
        # First: this worker may have been stopped until the steps were not its own any more.
        if self._ledger.waiting and (stopping or now >= self.hands_back_at()):
            self._pace.was_too_fast()
            self._ledger.end_waiting(Ending(verb="hand_back"), now)
        for claim in self._executor.take(self._ledger.waiting, self._pace.seconds):
            self._ledger.runs[claim.key] = self._limits.started(claim)

    def take_back(self, *, stopping: bool) -> None:
        """What would have to wait too long behind another step begins in the next free slot, whichever it is."""
        for claim in reversed(self._executor.give_back(everything=stopping)):
            if self._ledger.runs.pop(claim.key, None) is not None:
                self._ledger.waiting.appendleft(claim)
