"""Which actions get the free slots: the built-in strategies, and a call that survives a faulty one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stepwell.share.division import Bounds, Claimant, InvalidWeight, claimants_of, fill
from stepwell.share.over_time import SharesOverTime
from stepwell.share.strategy import DEFAULT_WEIGHT, NONE, NORMAL_SHARE, Strategy, Weight

__all__ = [
    "DEFAULT_WEIGHT",
    "NORMAL_SHARE",
    "DivideTotalValueEqually",
    "InvalidWeight",
    "Weight",
    "SortByDateCreated",
    "Strategy",
    "safe_grants",
    "safe_recall",
    "safe_remember",
]

_LOGGER: Final = logging.getLogger("stepwell.share")


@dataclass(frozen=True, slots=True)
class SortByDateCreated(Strategy):
    """Oldest first, whatever the action."""

    def for_worker(self, slots: int) -> None:
        return None

    def grants(
        self,
        slots: int,
        waiting: Mapping[str, int],
        weights: Mapping[str, Weight] = NONE,
        running: Mapping[str, int] = NONE,
    ) -> None:
        return None


@dataclass(frozen=True, slots=True)
class DivideTotalValueEqually(Strategy):
    """Slots in proportion to the weight of each action that has work.

    Every action with work gets one before any gets a second; what an action cannot use goes to the others in the same
    proportion. All in exact arithmetic; where shares are equal, the larger weight goes first, then the name.

    >>> DivideTotalValueEqually().grants(8, {"mail": 50, "report": 50, "sync": 1}, {"mail": 3, "report": 1})
    {'mail': 5, 'report': 2, 'sync': 1}

    The shares cover busy and free slots together, so an action that fills most of the slots leaves the next free
    one to the others, however many of its steps wait.

    >>> DivideTotalValueEqually().grants(1, {"mail": 50, "report": 50}, {"mail": 3, "report": 1}, {"mail": 3})
    {'mail': 0, 'report': 1}

    Calls are independent of each other. A worker's claims may be too small to divide: it uses `SharesOverTime`.
    """

    def for_worker(self, slots: int) -> Strategy:
        return SharesOverTime(slots)

    def grants(
        self,
        slots: int,
        waiting: Mapping[str, int],
        weights: Mapping[str, Weight] = NONE,
        running: Mapping[str, int] = NONE,
    ) -> dict[str, int]:
        claimants = claimants_of(waiting, weights, running)
        slots = min(max(slots, 0), sum(claimant.waiting for claimant in claimants))
        without = [claimant for claimant in claimants if not claimant.running]
        if slots <= len(without):
            chosen = {claimant.action for claimant in without[:slots]}
            return {claimant.action: int(claimant.action in chosen) for claimant in claimants}
        return _divide(claimants, slots)


def _divide(claimants: list[Claimant], slots: int) -> dict[str, int]:
    """Round the exact shares down, and give what is left to the largest remainders.

    A fractional share is below what its action can use, so rounding it up always fits.
    """
    total = slots + sum(claimant.running for claimant in claimants)
    # Slots in use cannot be taken away, and every action gets at least one.
    shares = fill([Bounds(c.action, c.weight, max(c.running, 1), c.most) for c in claimants], total)
    counts = {action: int(share) for action, share in shares.items()}
    # The sort is stable: equal ones stay ordered by weight, then by name.
    by_remainder = sorted(counts, key=lambda action: counts[action] - shares[action])
    for action in by_remainder[: total - sum(counts.values())]:
        counts[action] += 1
    return {claimant.action: counts[claimant.action] - claimant.running for claimant in claimants}


def safe_grants(
    strategy: Strategy,
    slots: int,
    waiting: Mapping[str, int],
    weights: Mapping[str, Weight] = NONE,
    running: Mapping[str, int] = NONE,
) -> Mapping[str, int] | None:
    """What the strategy grants. If it raises or returns invalid grants, that is logged, and None means oldest first.

    >>> safe_grants(DivideTotalValueEqually(), 4, {"mail": 9, "report": 9}, {"mail": 3})
    {'mail': 3, 'report': 1}
    """
    name = type(strategy).__name__
    try:
        granted = strategy.grants(slots, waiting, weights, running)
        problem = None if granted is None else _problem(granted, slots, waiting)
    except Exception:
        _LOGGER.exception("strategy %s raised; claiming the oldest steps instead", name)
        return None
    if problem is not None:
        _LOGGER.error("strategy %s %s; claiming the oldest steps instead", name, problem)
        return None
    return granted


def safe_recall(strategy: Strategy, memory: str | None, now: float) -> None:
    """Give a strategy what it kept. If it raises, that is logged, and it decides without."""
    try:
        strategy.recall(memory, now)
    except Exception:
        _LOGGER.exception("strategy %s raised in recall; it decides without its memory", type(strategy).__name__)


def safe_remember(strategy: Strategy) -> str | None:
    """What a strategy wants to keep. If it raises or returns anything but text, that is logged, and None is kept."""
    name = type(strategy).__name__
    try:
        memory: object = strategy.remember()
    except Exception:
        _LOGGER.exception("strategy %s raised in remember; nothing is kept for the next claim", name)
        return None
    if memory is None or (isinstance(memory, str) and "\0" not in memory):
        return memory
    _LOGGER.error("strategy %s returned %r from remember, which is not text; nothing is kept", name, memory)
    return None


def _problem(granted: Mapping[str, int], slots: int, waiting: Mapping[str, int]) -> str | None:
    """Why a claim could not carry out these grants; None if it could."""
    for action, count in granted.items():
        if type(count) is not int or count < 0:
            return f"granted {count!r} to {action!r}, which is not a number of steps"
        if count > waiting.get(action, 0):
            return f"granted {count} to {action!r}, which has {waiting.get(action, 0)} waiting"
    total = sum(granted.values())
    return f"granted {total} of {slots} free slots" if total > slots else None
