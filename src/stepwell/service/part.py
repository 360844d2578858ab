"""A part: anything that runs until it is stopped. It does one round at a time; the loop decides when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from stepwell.store import Wake
from stepwell.store.wake import Listener, NoListener


class Part(ABC):
    """What a crew starts and stops: a dispatcher, a worker, a reaper.

    Every method except `stop` is called in the thread of the part's loop.
    """

    name: str  # in log lines and as the name of its thread
    # Seconds before the first round of a part that can wait: at the start, processors are for the steps.
    first_round_after: ClassVar[float] = 0.0

    @abstractmethod
    def round(self, wakes: Collection[Wake]) -> float:
        """Do the work that is due; returns the number of seconds until the next round (0: at once).

        A wake-up from the database or a readable file starts it earlier. `wakes` are the wake-ups since the last round;
        at the start and after an error, all of them.
        """

    def listen(self) -> Listener:
        """A listener for the wake-ups that concern it: by default none."""
        return NoListener()

    def files(self) -> Sequence[Any]:
        """Files that start the next round early when they become readable."""
        return ()

    def open(self) -> None:  # noqa: B027 - most have nothing to open
        """Called once, before the first round. An error here is not retried: it ends the crew."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Called once, after the last round, even after an error."""

    def stop(self, *, at_once: bool = False) -> None:  # noqa: B027 - most are done when their round is
        """Request a stop. Only sets flags: it may be called from any thread and from a signal handler."""

    def is_done(self) -> bool:
        """After `stop`: whether no further round is needed."""
        return True

    def report(self) -> str:
        """A summary of what it has done so far; may be empty."""
        return ""
