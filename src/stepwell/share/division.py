"""Dividing slots in proportion to priorities, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from stepwell.model.errors import StepwellError
from stepwell.share.strategy import DEFAULT_WEIGHT, Priority


class InvalidWeight(StepwellError, ValueError):
    """A priority that is not a positive number."""


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
