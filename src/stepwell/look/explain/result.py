"""What an explanation consists of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from stepwell.model.states import State


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that a step waits for."""

    condition: str
    message: str
    steps: tuple[int, ...] = ()  # the first of the steps behind it
    more: int = 0  # how many further steps are behind it
    changes_at: datetime | None = None
    advice: tuple[str, ...] = ()  # commands, each of which removes it


@dataclass(frozen=True, slots=True)
class StepExplanation:
    """Why one step is in its state."""

    step_id: int
    name: str
    state: State
    summary: str
    eligible: bool
    obstacles: list[Obstacle] = field(default_factory=list)
    afterwards: list[Obstacle] = field(default_factory=list)  # what it will wait for once these are removed


@dataclass(frozen=True, slots=True)
class RootCause:
    """Something that does not wait for another step, with the steps that wait for it.

    Root causes are listed in an order in which they can be removed: the advice for one may need those before it.
    """

    condition: str
    message: str
    steps: tuple[int, ...]  # the first of them
    more: int = 0  # how many more there are
    changes_at: datetime | None = None
    advice: tuple[str, ...] = ()
    is_later: bool = False  # a step will wait for it, once something else is removed


@dataclass(frozen=True, slots=True)
class Explanation(StepExplanation):
    """Why a step is in its state, and why the steps that it waits for are in theirs, down to the root causes.

    `expected_at` is the earliest moment at which the step can continue, as far as it is known; a root cause without a
    moment of its own may delay it further.
    """

    behind: list[StepExplanation] = field(default_factory=list)  # the nearest first
    behind_more: int = 0  # how many further steps are behind it
    roots: list[RootCause] = field(default_factory=list)
    roots_more: int = 0
    is_complete: bool = True  # False: there are more steps behind it than were examined
    expected_at: datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class WorkflowExplanation:
    """Why a workflow has not completed: its steps that have not concluded, and the root causes behind all of them."""

    workflow_id: str
    steps: list[StepExplanation]
    steps_more: int
    roots: list[RootCause]
    roots_more: int
    is_complete: bool  # False: there are more steps than were examined

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
