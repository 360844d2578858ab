"""Who gets the free slots: how many steps of each action one claim takes.

A strategy knows no database. It is told how many steps of each action wait, and answers with a number for each;
within an action the oldest step always goes first.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

from stepwell.model.errors import StepwellError

# A float counts as exactly the number that it is: 0.1 is a little more than a tenth.
Priority: TypeAlias = int | float | Decimal | Fraction
Order: TypeAlias = Literal["by age", "by priority"]

DEFAULT_WEIGHT: Final = 1
# The urgent come first, but one slot in so many is for the rest while any waits; where there are fewer slots, one turn
# in so many. So constant urgent work starves nobody. (`pick` in sql/*/tick.sql spells the number out.)
NORMAL_SHARE: Final = 8

NONE: Final[Mapping[str, int]] = MappingProxyType({})
_LOGGER: Final = logging.getLogger("stepwell.share")


class InvalidWeight(StepwellError, ValueError):
    """A priority that is not a positive number."""


class Strategy(Protocol):
    """How the free slots are given out. Inherit from it, and write `grants`.

    `order` is that in which the steps of one claim begin: by age, or every action as often as its priority says, for
    what is claimed ahead of the slots may begin much later.
    """

    order: ClassVar[Order] = "by age"

    def for_worker(self, slots: int) -> Strategy | None:
        """What one worker of so many slots asks: this, or one with a memory of its own; None: the oldest go first."""
        return self

    @abstractmethod
    def grants(
        self, slots: int, waiting: Mapping[str, int], priorities: Mapping[str, Priority], held: Mapping[str, int]
    ) -> Mapping[str, int] | None:
        """How many steps of each action to take, or None: take the oldest, whatever they are.

        `held` is what each action has already, say the slots it runs in; an action missing there has none, and
        one missing in `priorities` has priority 1.
        """
        ...


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
        from stepwell.share.over_time import SharesOverTime

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


@dataclass(frozen=True, slots=True)
class Claimant:
    """An action with work."""

    action: str
    priority: Fraction
    held: int
    waiting: int

    @property
    def most(self) -> int:
        return self.held + self.waiting


def claimants_of(
    waiting: Mapping[str, int], priorities: Mapping[str, Priority], held: Mapping[str, int]
) -> list[Claimant]:
    """The actions that have work, the larger priority first, then by name."""
    claimants = [
        Claimant(action, _exactly(action, priorities.get(action, DEFAULT_WEIGHT)), held.get(action, 0), count)
        for action, count in waiting.items()
        if count > 0
    ]
    return sorted(claimants, key=lambda claimant: (-claimant.priority, claimant.action))


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


@dataclass(frozen=True, slots=True)
class Basin:
    """What an action may have of a total: its share by priority, but no less and no more than this."""

    action: str
    priority: Fraction
    least: int
    most: int


def fill(basins: Iterable[Basin], total: int) -> dict[str, Fraction]:
    """The exact share of each action, so that all together are the total.

    Picture basins side by side, as wide as their priorities, each with a bottom (least) and a brim (most), filled
    with one level of water: we pass the bottoms and brims in the order in which the rising water reaches them.
    """
    basins = list(basins)
    edges: list[tuple[Fraction, Fraction]] = []
    filled = Fraction(0)
    for basin in basins:
        filled += basin.least
        edges.append((basin.least / basin.priority, basin.priority))
        edges.append((basin.most / basin.priority, -basin.priority))
    level, width = Fraction(0), Fraction(0)  # a level is what one unit of priority is worth
    for edge, change in sorted(edges):
        if filled + width * (edge - level) >= total:
            break
        filled += width * (edge - level)
        level, width = edge, width + change
    level = level + (total - filled) / width if width else level
    return {
        basin.action: min(max(level * basin.priority, Fraction(basin.least)), Fraction(basin.most)) for basin in basins
    }


def _exactly(action: str, priority: Any) -> Fraction:
    try:
        exact = Fraction(0) if isinstance(priority, str) else Fraction(priority)
    except (TypeError, ValueError, OverflowError):
        exact = Fraction(0)  # not a number, or infinite: refused with the rest
    if exact <= 0:
        raise InvalidWeight(f"the priority of {action!r} is {priority!r}; it must be a number above 0, like 1 or 2.5")
    return exact
