"""A part: anything that runs for long. It does one round at a time; when and how often is the loop's business."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

from stepwell.store import Wake
from stepwell.store.wake import Listener, NoListener


class Part(ABC):
    """What a crew starts and stops: a dispatcher, a worker, a reaper.

    All of it is called in the thread of the part's loop, except `stop`.
    """

    name: str  # in log lines and as the name of its thread

    @abstractmethod
    def round(self, wakes: Collection[Wake]) -> float:
        """Do what there is to do; returns after how many seconds the next round is due (0: at once).

        A wake-up from the database or a readable file brings it forward. `wakes` is what has been heard since the last
        round; at the start and after an error, everything that there could be.
        """

    def listen(self) -> Listener:
        """The wake-ups that matter to it: by default none."""
        return NoListener()

    def files(self) -> Sequence[Any]:
        """What to wait for besides: a readable one brings the next round forward."""
        return ()

    def open(self) -> None:  # noqa: B027 - most have nothing to open
        """Called once, before the first round. An error here is not retried: it ends the crew."""

    def close(self) -> None:  # noqa: B027 - nor to close
        """Called once, after the last round, however that ended."""

    def stop(self, *, at_once: bool = False) -> None:  # noqa: B027 - most are done when their round is
        """Asked to come to an end. Only takes note: it may be called from any thread, and from a signal handler."""

    def is_done(self) -> bool:
        """After `stop`: whether there is nothing left that deserves another round."""
        return True

    def report(self) -> str:
        """What it has done so far, for a person to read; empty if there is nothing to say."""
        return ""
