"""Who gets the free slots: the strategies that there are, and how a claim asks one safely."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stepwell.share.division import Basin, Claimant, InvalidWeight, claimants_of, fill
from stepwell.share.over_time import SharesOverTime
from stepwell.share.strategy import DEFAULT_WEIGHT, NONE, NORMAL_SHARE, Priority, Strategy

__all__ = [
    "DEFAULT_WEIGHT",
    "NORMAL_SHARE",
    "DivideTotalValueEqually",
    "InvalidWeight",
    "Priority",
    "SortByDateCreated",
    "Strategy",
    "safely",
]

_LOGGER: Final = logging.getLogger("stepwell.share")


@dataclass(frozen=True, slots=True)
class SortByDateCreated(Strategy):
    """Oldest first, whatever the action: nothing is divided."""

    def for_worker(self, slots: int) -> None:
        return None

    def grants(
        self,
        slots: int,
        waiting: Mapping[str, int],
        priorities: Mapping[str, Priority] = NONE,
        held: Mapping[str, int] = NONE,
    ) -> None:
        return None


@dataclass(frozen=True, slots=True)
class DivideTotalValueEqually(Strategy):
    """Slots in proportion to the priority of each action that has work.

    Every action with work gets one before any gets a second; what an action cannot use goes to the others in the same
    proportion. All in exact arithmetic; where shares are equal, the larger priority goes first, then the name.

    >>> DivideTotalValueEqually().grants(8, {"mail": 50, "report": 50, "sync": 1}, {"mail": 3, "report": 1})
    {'mail': 5, 'report': 2, 'sync': 1}

    The shares are those of what is held and what is free together, so an action that fills most of the slots leaves the
    next free one to the others, however many of it wait.

    >>> DivideTotalValueEqually().grants(1, {"mail": 50, "report": 50}, {"mail": 3, "report": 1}, {"mail": 3})
    {'mail': 0, 'report': 1}

    Each call stands for itself; a worker, whose claims may be too small to be divided, takes turns (`SharesOverTime`).
    """

    def for_worker(self, slots: int) -> Strategy:
        return SharesOverTime(slots)

    def grants(
        self,
        slots: int,
        waiting: Mapping[str, int],
        priorities: Mapping[str, Priority] = NONE,
        held: Mapping[str, int] = NONE,
    ) -> dict[str, int]:
        claimants = claimants_of(waiting, priorities, held)
        slots = min(max(slots, 0), sum(claimant.waiting for claimant in claimants))
        without = [claimant for claimant in claimants if not claimant.held]
        if slots <= len(without):
            chosen = {claimant.action for claimant in without[:slots]}
            return {claimant.action: int(claimant.action in chosen) for claimant in claimants}
        return _divide(claimants, slots)


def _divide(claimants: list[Claimant], slots: int) -> dict[str, int]:
    """Round the exact shares down, and give what is left to the largest remainders.

    A share that is no whole number is below what its action can use, so one more always fits.
    """
    total = slots + sum(claimant.held for claimant in claimants)
    # What is held cannot be taken away, and nobody goes without.
    shares = fill([Basin(c.action, c.priority, max(c.held, 1), c.most) for c in claimants], total)
    counts = {action: int(share) for action, share in shares.items()}
    # Sorting keeps the order of equals: by priority, then by name.
    by_remainder = sorted(counts, key=lambda action: counts[action] - shares[action])
    for action in by_remainder[: total - sum(counts.values())]:
        counts[action] += 1
    return {claimant.action: counts[claimant.action] - claimant.held for claimant in claimants}


def safely(
    strategy: Strategy,
    slots: int,
    waiting: Mapping[str, int],
    priorities: Mapping[str, Priority] = NONE,
    held: Mapping[str, int] = NONE,
) -> Mapping[str, int] | None:
    """What the strategy grants; if it raises, or grants what is not there, that is logged and oldest-first serves.

    >>> safely(DivideTotalValueEqually(), 4, {"mail": 9, "report": 9}, {"mail": 3})
    {'mail': 3, 'report': 1}
    """
    name = type(strategy).__name__
    try:
        granted = strategy.grants(slots, waiting, priorities, held)
        problem = None if granted is None else _problem(granted, slots, waiting)
    except Exception:
        _LOGGER.exception("the strategy %s raised; this claim takes the oldest steps instead", name)
        return None
    if problem is not None:
        _LOGGER.error("the strategy %s %s; this claim takes the oldest steps instead", name, problem)
        return None
    return granted


def _problem(granted: Mapping[str, int], slots: int, waiting: Mapping[str, int]) -> str | None:
    """What a claim could not carry out."""
    for action, count in granted.items():
        if type(count) is not int or count < 0:
            return f"granted {count!r} to {action!r}, which is not a number of steps"
        if count > waiting.get(action, 0):
            return f"granted {count} to {action!r}, of which {waiting.get(action, 0)} wait"
    total = sum(granted.values())
    return f"granted {total} of {slots} free slots" if total > slots else None
