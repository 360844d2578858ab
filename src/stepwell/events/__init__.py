"""What Stepwell tells the program around it. Published after the commit; a subscriber that raises changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

_LOGGER: Final = logging.getLogger("stepwell.events")


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all of them; `name` is what it is called outside of Python."""

    name: ClassVar[str] = "event"


@dataclass(frozen=True, slots=True)
class StepFailed(Event):
    """A run failed and there will be no other: somebody should know."""

    name: ClassVar[str] = "step.failed"
    step_id: int
    action: str
    reason: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class StepRescued(Event):
    """The worker of a step died; `poison` if that has happened too often and the step was given up."""

    name: ClassVar[str] = "step.rescued"
    step_id: int
    action: str
    worker: str
    poison: bool


@dataclass(frozen=True, slots=True)
class GroupStalled(Event):
    """A group has work that could run, workers with free slots, and makes no progress."""

    name: ClassVar[str] = "group.no_progress"
    group: str
    step_id: int
    seconds: float


E = TypeVar("E", bound=Event)


class Events:
    """The subscribers of an app.

    >>> events = Events()
    >>> @events.on(StepFailed)
    ... def tell(event: StepFailed) -> None:
    ...     print(event.name, event.step_id)
    >>> events.publish(StepFailed(7, "fetch", "error", "ValueError"))
    step.failed 7
    """

    def __init__(self) -> None:
        self._subscribers: list[tuple[type[Event], Callable[[Any], None]]] = []

    def on(self, kind: type[E]) -> Callable[[Callable[[E], None]], Callable[[E], None]]:
        """Call a function for every event of a kind."""

        def subscribe(function: Callable[[E], None]) -> Callable[[E], None]:
            self._subscribers.append((kind, function))
            return function

        return subscribe

    def publish(self, event: Event) -> None:
        for kind, function in self._subscribers:
            if isinstance(event, kind):
                try:
                    function(event)
                except Exception:
                    _LOGGER.exception("a subscriber of %s raised", event.name)
