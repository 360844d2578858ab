"""Subscribers: called after the commit; an error in one of them is logged and has no other effect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from stepwell.events.catalogue import (
    Event,
    StepChanged,
    TaskFinalizationStarted,
    WorkflowChanged,
    event_of,
    events_of_workflow,
)
from stepwell.store import Change, ChangeHooks, WorkflowChange

_LOGGER: Final = logging.getLogger("stepwell.events")

E = TypeVar("E", bound=Event)


class Events:
    """The subscribers of an app.

    >>> from stepwell.events import GroupStalled
    >>> events = Events()
    >>> @events.on(GroupStalled)
    ... def page(event: GroupStalled) -> None:
    ...     print(event.name, event.group)
    >>> events.publish(GroupStalled("alpha", 7, 60.0))
    group.no_progress alpha
    """

    def __init__(self) -> None:
        self._subscribers: list[tuple[type[Event], Callable[[Any], None]]] = []

    def copy(self) -> Events:
        """The same subscribers; one that is added to the copy is not added here."""
        copied = Events()
        copied._subscribers += self._subscribers
        return copied

    def on(self, kind: type[E]) -> Callable[[Callable[[E], None]], Callable[[E], None]]:
        """Subscribe a function to the events of a class and its subclasses."""

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

    def follow(self, hooks: ChangeHooks) -> None:
        """Publish every change of the state of a step or a workflow that this process commits."""
        hooks.after_commit(self._publish_changes, lambda: self._has_subscribers_of(StepChanged))
        hooks.after_workflow_commit(
            self._publish_workflow_changes,
            lambda: self._has_subscribers_of(WorkflowChanged) or self._has_subscribers_of(TaskFinalizationStarted),
        )

    def _has_subscribers_of(self, event: type[Event]) -> bool:
        return any(issubclass(kind, event) or issubclass(event, kind) for kind, _ in self._subscribers)

    def _publish_workflow_changes(self, changes: Sequence[WorkflowChange]) -> None:
        for change in changes:
            for event in events_of_workflow(change):
                self.publish(event)

    def _publish_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.publish(event_of(change))
