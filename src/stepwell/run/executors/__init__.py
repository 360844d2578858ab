"""Where a step's code runs: in a thread, on an event loop, in a process of its own.

An executor starts claimed steps and hands back how they ended. It decides nothing: when a run is over time or its step
was cancelled, the worker tells it so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from stepwell.run.finish import Claim, Ended

ExecutorKind: TypeAlias = Literal["process", "thread", "async"]


class Executor(ABC):
    """Runs as many steps at once as it has slots."""

    slots: int
    can_end_runs: bool  # code in a thread goes on, and with it the lease of a step that was cancelled

    @abstractmethod
    def free(self) -> int:
        """How many steps can be started now."""

    @abstractmethod
    def start(self, claim: Claim) -> None:
        """Begin a run; does not wait for it."""

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
    def cut(self, claim: Claim) -> None:
        """End a run, or forget it: its word no longer counts."""

    @abstractmethod
    def close(self) -> None:
        """End everything that still runs."""
