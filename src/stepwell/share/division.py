"""Dividing slots in proportion to weights, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from stepwell.model.errors import StepwellError
from stepwell.share.strategy import DEFAULT_WEIGHT, Weight


class InvalidWeight(StepwellError, ValueError):
    """A weight that is not a positive number."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """An action with steps waiting."""

    action: str
    weight: Fraction
    running: int
    waiting: int

    @property
    def most(self) -> int:
        return self.running + self.waiting


def claimants_of(
    waiting: Mapping[str, int], weights: Mapping[str, Weight], running: Mapping[str, int]
) -> list[Claimant]:
    """The actions with steps waiting: by weight, largest first, then by name."""
    claimants = [
        Claimant(action, _exactly(action, weights.get(action, DEFAULT_WEIGHT)), running.get(action, 0), count)
        for action, count in waiting.items()
        if count > 0
    ]
    return sorted(claimants, key=lambda claimant: (-claimant.weight, claimant.action))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The smallest and largest share of the total that an action can get, whatever its weight."""

    action: str
    weight: Fraction
    least: int
    most: int


def fill(bounds: Iterable[Bounds], total: int) -> dict[str, Fraction]:
    """The exact share of each action; together they add up to the total.

    This is water-filling: each action is a basin as wide as its weight, with a floor (least) and a rim (most), and one
    water level serves all of them. We visit the floors and rims in the order in which the rising level reaches them.
    """
    bounds = list(bounds)
    edges: list[tuple[Fraction, Fraction]] = []
    filled = Fraction(0)
    for each in bounds:
        filled += each.least
        edges.append((each.least / each.weight, each.weight))
        edges.append((each.most / each.weight, -each.weight))
    level, width = Fraction(0), Fraction(0)  # the level: slots per unit of weight
    for edge, change in sorted(edges):
        if filled + width * (edge - level) >= total:
            break
        filled += width * (edge - level)
        level, width = edge, width + change
    level = level + (total - filled) / width if width else level
    return {each.action: min(max(level * each.weight, Fraction(each.least)), Fraction(each.most)) for each in bounds}


def _exactly(action: str, weight: Any) -> Fraction:
    try:
        exact = Fraction(0) if isinstance(weight, str) else Fraction(weight)
    except (TypeError, ValueError, OverflowError):
        exact = Fraction(0)  # not a number, or infinite: rejected below
    if exact <= 0:
        raise InvalidWeight(f"the weight of {action!r} is {weight!r}; it must be a number above 0, such as 1 or 2.5")
    return exact
