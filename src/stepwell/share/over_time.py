"""Shares that are exact over many claims.

A claim of one step cannot be divided: whatever the weights, one action gets it. So a worker carries each action's
rounding error over to its next claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import floor

from stepwell.share.division import Bounds, Claimant, claimants_of, fill
from stepwell.share.strategy import NONE, Strategy, Weight


class SharesOverTime(Strategy):
    """`DivideTotalValueEqually` for one worker, with state: exact shares over all its claims together.

    >>> turns = SharesOverTime(slots=1)
    >>> waiting, weights = {"mail": 50, "report": 50, "sync": 50}, {"mail": 3, "report": 2, "sync": 1}
    >>> [action for _ in range(6) for action, count in turns.grants(1, waiting, weights).items() if count]
    ['mail', 'report', 'mail', 'sync', 'report', 'mail']

    `slots` is the worker's total number of slots. While there is one for every action that has work, each gets at least
    one. If there are fewer and steps are claimed ahead of free slots, the steps are so short that only the number of
    runs counts, not what is running at the moment. A claim that is rolled back still counts; that costs an action one
    turn at most.
    """

    order = "by weight"

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._owed: dict[str, Fraction] = {}

    def grants(
        self,
        slots: int,
        waiting: Mapping[str, int],
        weights: Mapping[str, Weight] = NONE,
        running: Mapping[str, int] = NONE,
    ) -> dict[str, int]:
        claimants = claimants_of(waiting, weights, running)
        slots = min(max(slots, 0), sum(claimant.waiting for claimant in claimants))
        if not slots:
            return {claimant.action: 0 for claimant in claimants}
        total = slots + sum(claimant.running for claimant in claimants)
        suffices = min(self._slots, total) >= len(claimants)
        if not suffices and total > self._slots:
            claimants, total = [replace(claimant, running=0) for claimant in claimants], slots
        shares = fill(_bounds(claimants, slots, suffices), total)
        exact = {claimant.action: shares[claimant.action] - claimant.running for claimant in claimants}
        owed = {action: self._owed.get(action, Fraction(0)) + share for action, share in exact.items()}
        counts = {action: floor(share) for action, share in exact.items()}
        # A fractional share is below what its action can use, so rounding it up always fits. The sort is stable: equal
        # ones stay ordered by weight, then by name.
        fractional = [action for action, share in exact.items() if share != counts[action]]
        fractional.sort(key=lambda action: counts[action] - owed[action])
        for action in fractional[: slots - sum(counts.values())]:
            counts[action] += 1
        # Actions with nothing waiting are dropped: they do not accumulate credit.
        self._owed = {action: owed[action] - count for action, count in counts.items()}
        return counts


def _bounds(claimants: list[Claimant], slots: int, suffices: bool) -> list[Bounds]:
    """Slots in use cannot be taken away; if there are enough for every action, those without one come first."""
    if not suffices:
        return [Bounds(c.action, c.weight, c.running, c.most) for c in claimants]
    if slots <= sum(not claimant.running for claimant in claimants):
        return [Bounds(c.action, c.weight, c.running, c.running or 1) for c in claimants]
    return [Bounds(c.action, c.weight, max(c.running, 1), c.most) for c in claimants]
