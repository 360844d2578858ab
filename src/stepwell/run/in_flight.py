"""The claims a worker has in flight: each is waiting to start, running, or ended but not written yet."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from stepwell.model.claimed import Claim
from stepwell.run.ending import Ended, Ending


@dataclass(slots=True)
class Run:
    """A step that this worker runs."""

    claim: Claim
    abandon_at: float | None  # by the app's clock (see `TimeLimits`)
    cancelled: bool = False


class InFlight:
    """The claims of one worker, from the claim until their end is committed."""

    def __init__(self) -> None:
        self.waiting: deque[Claim] = deque()
        self.waiting_since = 0.0  # when the latest of them were claimed
        self.runs: dict[tuple[int, int], Run] = {}
        self.endings: list[Ended] = []
        self.oldest_ending = 0.0

    def is_empty(self) -> bool:
        return not (self.runs or self.waiting or self.endings)

    def add_claims(self, claims: Iterable[Claim], now: float) -> None:
        self.waiting_since = now
        self.waiting.extend(claims)

    def add_ending(self, claim: Claim, ending: Ending, now: float) -> None:
        """The caller has removed the claim from `waiting` or `runs`."""
        if not self.endings:
            self.oldest_ending = now
        self.endings.append((claim, ending))

    def take_endings(self) -> list[Ended]:
        endings, self.endings = self.endings, []
        return endings

    def end_waiting(self, ending: Ending, now: float) -> None:
        """End all waiting claims without starting them."""
        while self.waiting:
            self.add_ending(self.waiting.popleft(), ending, now)

    def forget_unfinished(self) -> int:
        """Drop claims whose leases are lost; returns how many there were."""
        count = len(self.runs) + len(self.waiting)
        self.runs.clear()
        self.waiting.clear()
        return count

    def keys(self) -> set[tuple[int, int]]:
        """The keys of all claims."""
        waiting = (claim.key for claim in self.waiting)
        return {*self.runs, *waiting, *(claim.key for claim, _ in self.endings)}

    def unfinished_by_action(self) -> Counter[str]:
        claims = [*(run.claim for run in self.runs.values()), *self.waiting]
        return Counter(claim.step.action for claim in claims)
