"""Where a step's code runs: in a thread, on an event loop, or in a process of its own.

An executor starts claimed steps and returns how they ended. It decides nothing: the worker tells it when to cancel or
abandon a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from stepwell.model.claimed import Claim
from stepwell.run.ending import Ended

# A prefetched step starts within this time, or is withdrawn and starts in another slot.
PREFETCH_SECONDS: Final = 0.02

ExecutorKind: TypeAlias = Literal["process", "thread", "async"]


class Executor(ABC):
    """Runs as many steps at once as it has slots."""

    slots: int
    can_end_runs: bool  # a thread cannot be killed: the lease of a cancelled step is held until its code returns

    @abstractmethod
    def free(self) -> int:
        """How many slots are idle."""

    @abstractmethod
    def start(self, waiting: deque[Claim], seconds_per_step: float | None) -> list[Claim]:
        """Start as many of the waiting claims as possible, first come first served; returns those. Never blocks.

        `seconds_per_step` is how many seconds a step takes, if known: short ones may be prefetched for a slot.
        """

    @abstractmethod
    def running(self) -> list[Claim]:
        """The claims whose code runs now, without those that are prefetched."""

    def is_occupied(self) -> bool:
        """Whether nothing can start, however short, until a current run ends or yields."""
        return False

    def prefetched(self) -> int:
        """How many started claims are prefetched: they wait for the run before them."""
        return 0

    def withdraw(self, *, everything: bool = False) -> list[Claim]:
        """Withdraw prefetched steps that would wait too long (or all of them): they have not run and will not."""
        return []

    @abstractmethod
    def files(self) -> Sequence[Any]:
        """Files that become readable when there is something to collect."""

    @abstractmethod
    def collect(self) -> list[Ended]:
        """The runs that have ended since the last call; never blocks."""

    @abstractmethod
    def request_cancel(self, claim: Claim) -> None:
        """Tell the code that its result will be ignored."""

    @abstractmethod
    def abandon(self, claim: Claim) -> None:
        """Kill a run if possible; its ending is ignored in any case."""

    @abstractmethod
    def close(self) -> None:
        """Stop the slots; kills what still runs if possible."""
