"""Shares that hold over many claims.

A claim of one cannot be divided: whatever the weights, one action gets it. So a worker remembers what rounding has
owed each action so far, and pays it with the next claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import floor

from stepwell.share.division import Basin, Claimant, claimants_of, fill
from stepwell.share.strategy import NONE, Priority, Strategy


class SharesOverTime(Strategy):
    """`DivideTotalValueEqually` for one worker, with a memory: exact shares of all its claims together.

    >>> turns = SharesOverTime(slots=1)
    >>> waiting, weights = {"mail": 50, "report": 50, "sync": 50}, {"mail": 3, "report": 2, "sync": 1}
    >>> [action for _ in range(6) for action, count in turns.grants(1, waiting, weights).items() if count]
    ['mail', 'report', 'mail', 'sync', 'report', 'mail']

    `slots` is what the worker has in all. While they are enough for every action that has work, none goes without.
    While they are not and steps are claimed ahead of them, these are so short that only the number of runs counts,
    not what is held at the moment. A claim that is rolled back has had its turn: one, at most.
    """

    order = "by priority"

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._owed: dict[str, Fraction] = {}

    def grants(
        self,
        slots: int,
        waiting: Mapping[str, int],
        priorities: Mapping[str, Priority] = NONE,
        held: Mapping[str, int] = NONE,
    ) -> dict[str, int]:
        claimants = claimants_of(waiting, priorities, held)
        slots = min(max(slots, 0), sum(claimant.waiting for claimant in claimants))
        if not slots:
            return {claimant.action: 0 for claimant in claimants}
        total = slots + sum(claimant.held for claimant in claimants)
        suffices = min(self._slots, total) >= len(claimants)
        if not suffices and total > self._slots:
            claimants, total = [replace(claimant, held=0) for claimant in claimants], slots
        shares = fill(_basins(claimants, slots, suffices), total)
        dues = {claimant.action: shares[claimant.action] - claimant.held for claimant in claimants}
        owed = {action: self._owed.get(action, Fraction(0)) + due for action, due in dues.items()}
        counts = {action: floor(due) for action, due in dues.items()}
        # A due that is no whole number is below what its action can use, so one more always fits. Sorting keeps the
        # order of equals: by priority, then by name.
        parted = [action for action, due in dues.items() if due != counts[action]]
        parted.sort(key=lambda action: counts[action] - owed[action])
        for action in parted[: slots - sum(counts.values())]:
            counts[action] += 1
        # Who has nothing waiting is owed nothing: it does not save up turns for later.
        self._owed = {action: owed[action] - count for action, count in counts.items()}
        return counts


def _basins(claimants: list[Claimant], slots: int, suffices: bool) -> list[Basin]:
    """What is held cannot be taken away; if there is a slot for everybody, who has none comes first."""
    if not suffices:
        return [Basin(c.action, c.priority, c.held, c.most) for c in claimants]
    if slots <= sum(not claimant.held for claimant in claimants):
        return [Basin(c.action, c.priority, c.held, c.held or 1) for c in claimants]
    return [Basin(c.action, c.priority, max(c.held, 1), c.most) for c in claimants]
