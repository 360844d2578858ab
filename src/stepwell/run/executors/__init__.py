"""Where a step's code runs: in a thread, on an event loop, in a process of its own.

An executor starts claimed steps and returns how they ended. It decides nothing: when a run is over time or its step
was cancelled, the worker tells it so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from stepwell.model.claimed import Claim
from stepwell.run.ending import Ended

# A step that was prefetched behind another begins within this time, or in another slot.
PREFETCH_SECONDS: Final = 0.02

ExecutorKind: TypeAlias = Literal["process", "thread", "async"]


class Executor(ABC):
    """Runs as many steps at once as it has slots."""

    slots: int
    can_end_runs: bool  # code in a thread cannot be ended: the lease of a cancelled step stands until it returns

    @abstractmethod
    def free(self) -> int:
        """How many slots have nothing to do."""

    @abstractmethod
    def start(self, waiting: deque[Claim], pace: float | None) -> list[Claim]:
        """Begin the first of those that wait, as many as can be begun now; returns those. Never blocks.

        `pace` is how many seconds a step takes, where that is known: short ones may be prefetched for a slot.
        """

    def is_stalled(self) -> bool:
        """Whether it can begin nothing, however short, before something that runs gives way."""
        return False

    def prefetched(self) -> int:
        """How many of the steps that were taken wait for the one before them."""
        return 0

    def withdraw(self, *, everything: bool = False) -> list[Claim]:
        """Prefetched steps that would have to wait too long (or all of them): they have not begun, and never will."""
        return []

    @abstractmethod
    def files(self) -> Sequence[Any]:
        """What becomes readable when there is something to collect."""

    @abstractmethod
    def collect(self) -> list[Ended]:
        """The runs that have ended since the last time; never blocks."""

    @abstractmethod
    def request_cancel(self, claim: Claim) -> None:
        """Let the code know that its result will not count."""

    @abstractmethod
    def abandon(self, claim: Claim) -> None:
        """End a run, or forget it: whatever it still does is ignored."""

    @abstractmethod
    def close(self) -> None:
        """End everything that still runs."""
