"""An obstacle with what is behind it, and the sources that find them.

A source is called with the facts and one step at a time, and yields what that step waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from stepwell.look.explain.facts import SHOWN, Facts
from stepwell.look.explain.result import Obstacle
from stepwell.store.engine.explaining import StepFacts


@dataclass(frozen=True, slots=True)
class Before:
    """Everything in a block and of a type that has not concluded below an index.

    A node of its own in the chain: ten thousand steps in a row have ten thousand links this way, not fifty million.
    """

    block: str
    type: str
    index: int


Node: TypeAlias = int | Before


@dataclass(frozen=True, slots=True)
class Found:
    """An obstacle, and what is behind it; nothing behind it makes it a root cause."""

    obstacle: Obstacle
    behind: Sequence[Node] = ()
    any_of: bool = False  # it is removed as soon as one of them ends, not all
    is_removed_then: bool = True  # at `changes_at`; otherwise the step fails then


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
    nodes: Sequence[Node] | None = None,
    any_of: bool = False,
) -> Found:
    """An obstacle that consists of other steps: these, or `total` of which these are the first."""
    obstacle = Obstacle(condition, message, tuple(ids[:SHOWN]), max(0, max(len(ids), total) - SHOWN))
    return Found(obstacle, ids if nodes is None else nodes, any_of)
