"""Shares that are exact over many claims.

A claim of one step cannot be divided: whatever the weights, one action gets it. So a worker carries each action's
rounding error over to its next claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import floor
from typing import Final

from stepwell.share.division import Bounds, Claimant, claimants_of, fill
from stepwell.share.strategy import NONE, Strategy, Weight

MOST_OWED: Final = Fraction(2)  # slots; turns in small claims never owe an action as much


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

    What an action has beyond its share counts against it later. Otherwise one with a share of 1.4 slots, which always
    has one and often two, would get a tenth more than its share in the long run.
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
        # Of an action with more steps than this claim can take, only those that it can take may be counted.
        shares = fill(
            [
                Bounds(c.action, c.weight, int(suffices), c.most if c.waiting < slots else max(c.most, total))
                for c in claimants
            ],
            total,
        )
        wanted = {c.action: shares[c.action] + self._owed.get(c.action, 0) - c.running for c in claimants}
        least = {c.action: int(suffices and not c.running) for c in claimants}
        counts = _apportioned(claimants, wanted, least, slots)
        # Actions with nothing waiting are dropped: they do not accumulate credit.
        self._owed = {action: _bounded(wanted[action] - count) for action, count in counts.items()}
        return counts


def _apportioned(
    claimants: list[Claimant], wanted: Mapping[str, Fraction], least: Mapping[str, int], slots: int
) -> dict[str, int]:
    """All slots, each to the action that lacks most at that moment; those that must get one come first.

    Where they lack equally much, the order of the claimants decides: by weight, then by name.
    """
    counts = {c.action: min(max(floor(wanted[c.action]), least[c.action]), c.waiting) for c in claimants}
    if sum(counts.values()) > slots:  # others have more than their share, and keep it
        counts = dict.fromkeys(counts, 0)
    line = [
        (counts[c.action] >= least[c.action], counts[c.action] - wanted[c.action], place)
        for place, c in enumerate(claimants)
        if counts[c.action] < c.waiting
    ]
    heapify(line)
    for _ in range(slots - sum(counts.values())):
        _, lack, place = heappop(line)
        claimant = claimants[place]
        counts[claimant.action] += 1
        if counts[claimant.action] < claimant.waiting:
            heappush(line, (True, lack + 1, place))
    return counts


def _bounded(owed: Fraction) -> Fraction:
    """Long runs that hold many slots are not repaid in full: an action would wait for as long as they took."""
    return max(min(owed, MOST_OWED), -MOST_OWED)
