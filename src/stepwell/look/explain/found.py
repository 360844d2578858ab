"""An obstacle with what is behind it, and the sources that find them.

A source is called with the facts and one step at a time, and yields what that step waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import TypeAlias

from stepwell.look.explain.facts import SHOWN, Facts
from stepwell.look.explain.result import Obstacle
from stepwell.store.engine.explaining import StepFacts


class Goal(Enum):
    """What a step has to reach, so that another one that waits for it can continue."""

    LEASE_RELEASED = "lease released"
    OWN_CODE_DONE = "own code done"
    ENDED = "ended"
    CONCLUDED = "concluded"


@dataclass(frozen=True, slots=True)
class Need:
    """A step, and what it has to reach."""

    step_id: int
    goal: Goal = Goal.CONCLUDED


@dataclass(frozen=True, slots=True)
class Before:
    """Everything in a block and of a type that has not concluded below an index.

    A node of its own in the chain: ten thousand steps in a row have ten thousand links this way, not fifty million.
    """

    block: str
    type: str
    index: int


Node: TypeAlias = Need | Before


@dataclass(frozen=True, slots=True)
class Found:
    """An obstacle, and what is behind it; nothing behind it makes it a root cause."""

    obstacle: Obstacle
    behind: Sequence[Node] = ()
    any_of: bool = False  # it is removed as soon as one of them is there, not all
    is_removed_then: bool = True  # at `changes_at`; otherwise the step fails then
    is_later: bool = False  # the step waits for it only once something else is removed


Source: TypeAlias = Callable[[Facts, StepFacts], Iterator[Found]]


def cause(condition: str, message: str, *, changes_at: datetime | None = None, advice: Sequence[str] = ()) -> Found:
    """A root cause: nothing else has to happen first."""
    return Found(Obstacle(condition, message, changes_at=changes_at, advice=tuple(advice)))


def behind(
    condition: str,
    message: str,
    ids: Sequence[int],
    *,
    total: int = 0,
    goal: Goal = Goal.CONCLUDED,
    nodes: Sequence[Node] | None = None,
    any_of: bool = False,
) -> Found:
    """An obstacle that consists of other steps: these, or `total` of which these are the first.

    It is removed when they have reached the goal.
    """
    obstacle = Obstacle(condition, message, tuple(ids[:SHOWN]), max(0, max(len(ids), total) - SHOWN))
    return Found(obstacle, [Need(each, goal) for each in ids] if nodes is None else nodes, any_of)


def later(found: Found) -> Found:
    return found if found.is_later else replace(found, is_later=True)
