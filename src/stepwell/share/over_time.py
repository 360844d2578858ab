"""Shares that are exact over many claims.

A claim of one step cannot be divided: whatever the weights, one action gets it. So what each action has had too little
or too much of is carried over to later claims: in the memory of a worker that divides its own slots, in the database
for the slots of a limit, which many workers divide (decision 0010).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import floor
from typing import Final

import msgspec

from stepwell.share.division import Bounds, Claimant, claimants_of, fill
from stepwell.share.strategy import NONE, Strategy, Weight

# Slots, for the length of a run. A larger bound would let an action wait longer after one of its runs took very long.
MOST_OWED: Final = 4.0
# The mean length of a run is that of the latest runs, this many for each slot.
RUNS_OF_MEAN: Final = 4
# An interval counts as at most this many times the mean: the first claim after an idle night must not distort it.
MOST_GROWTH: Final = 4
SHORTEST_SECONDS: Final = 1e-6  # between two claims, also if the clock stands still or was set back


class Balance(msgspec.Struct, array_like=True):
    """One action with work: how many seconds of a slot it is owed, and by how many slots it is below its share now."""

    owed: float
    below: float


class Memory(msgspec.Struct, array_like=True):
    """What one claim leaves to the next."""

    at: float  # seconds; when it was
    run_seconds: float  # mean length of a run, 0: not known yet
    begun: int  # the runs that it began
    held: int  # the slots that these and the earlier runs of the same actions held then
    balances: dict[str, Balance]


class SharesOverTime(Strategy):
    """`DivideTotalValueEqually` with a memory: exact shares over many claims together.

    >>> turns = SharesOverTime(slots=1)
    >>> waiting, weights = {"mail": 50, "report": 50, "sync": 50}, {"mail": 3, "report": 2, "sync": 1}
    >>> [action for _ in range(6) for action, count in turns.grants(1, waiting, weights).items() if count]
    ['mail', 'report', 'mail', 'sync', 'report', 'mail']

    `slots` is the total number of slots that are divided. While there is one for every action that has work, each gets
    at least one. If there are fewer and steps are claimed ahead of free slots, the steps are so short that only the
    number of runs counts, not what is running at the moment.

    What an action has below or beyond its share is counted for as long as it lasts, and is owed to it or by it later:
    as many slots as make up for it within the mean length of a run. Where workers share a memory (`recall`), a clock
    says how long that was. A worker by itself counts runs: as many as there are slots take the length of one.
    """

    order = "by weight"

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._memory: Memory | None = None
        self._now: float | None = None

    def recall(self, memory: str | None, now: float) -> None:
        self._now = now
        try:
            self._memory = None if memory is None else msgspec.json.decode(memory, type=Memory)
        except msgspec.MsgspecError:
            self._memory = None  # of another version: begin anew

    def remember(self) -> str | None:
        return None if self._memory is None else msgspec.json.encode(self._memory).decode()

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
        run_seconds, owed = self._owed(running)
        slots_owed = {action: Fraction(each / run_seconds) for action, each in owed.items()} if run_seconds else {}
        wanted = {c.action: shares[c.action] + slots_owed.get(c.action, 0) - c.running for c in claimants}
        least = {c.action: int(suffices and not c.running) for c in claimants}
        counts = _apportioned(claimants, wanted, least, slots)
        # Actions with nothing waiting are dropped: they do not accumulate credit.
        balances = {
            c.action: Balance(owed.get(c.action, 0.0), float(shares[c.action] - c.running - counts[c.action]))
            for c in claimants
        }
        self._memory = Memory(self._now or 0.0, run_seconds, slots, total, balances)
        return counts

    def _owed(self, running: Mapping[str, int]) -> tuple[float, dict[str, float]]:
        """The mean length of a run in seconds, and what each action is owed now."""
        last = self._memory
        if last is None:
            return 0.0, {}
        if self._now is None:
            seconds, run_seconds = last.begun / last.held, 1.0  # as if each run took a second
        else:
            seconds = max(self._now - last.at, SHORTEST_SECONDS)
            run_seconds = _mean(last, seconds, running)
        owed = {action: each.owed + each.below * seconds for action, each in last.balances.items()}
        # What one is owed, the others owe: actions that have left, and the bound, must not change the sum.
        mean, most = sum(owed.values()) / len(owed), MOST_OWED * run_seconds
        return run_seconds, {action: max(min(each - mean, most), -most) for action, each in owed.items()}


def _mean(last: Memory, seconds: float, running: Mapping[str, int]) -> float:
    """The mean length of a run, after an interval in which as many ended as no longer run; 0: not known yet."""
    ended = 1 - min(sum(running.get(action, 0) for action in last.balances) / last.held, 1.0)
    if not last.run_seconds:
        return seconds / ended if ended else 0.0
    seconds = min(seconds, MOST_GROWTH * last.run_seconds)
    return (RUNS_OF_MEAN * last.run_seconds + seconds) / (RUNS_OF_MEAN + ended)


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
