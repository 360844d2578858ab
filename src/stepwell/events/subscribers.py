"""Subscribers, functions and objects: they receive events after the commit, each in a thread of its own."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar, overload

from stepwell.events.catalogue import event_class
from stepwell.events.event import Event
from stepwell.events.mailbox import FLUSH_SECONDS, Mailbox
from stepwell.events.steps import StepChanged, event_of
from stepwell.events.workflows import TaskFinalizationStarted, WorkflowChanged, events_of_workflow
from stepwell.model.errors import StepwellError
from stepwell.store import Change, ChangeHooks, WorkflowChange

E = TypeVar("E", bound=Event)
F = TypeVar("F", bound=Callable[..., object])
S = TypeVar("S")

# How long a commit of a test waits for its subscribers. They take microseconds; one that blocks must not stop the test.
KEEP_UP_SECONDS: Final = 2.0
_KINDS: Final = "__stepwell_events__"


class Subscription(NamedTuple):
    """A function that receives the events of these classes and their subclasses."""

    kinds: tuple[type[Event], ...]
    function: Callable[[Any], object]
    mailbox: Mailbox


@overload
def on(*kinds: type[E]) -> Callable[[Callable[[Any, E], object]], Callable[[Any, E], object]]: ...
@overload
def on(*kinds: str) -> Callable[[F], F]: ...
def on(*kinds: type[Event] | str) -> Callable[[Any], Any]:
    """Mark a method of a subscriber class: it receives the events of these classes, or of these names.

    See `Events.subscribe`.
    """
    found = _classes(kinds)

    def mark(method: Any) -> Any:
        setattr(_plain(method), _KINDS, found)
        return method

    return mark


class Events:
    """The subscribers of an app.

    >>> from stepwell.events import GroupStalled
    >>> events, paged = Events(), []
    >>> @events.on(GroupStalled)
    ... def page(event: GroupStalled) -> None:
    ...     paged.append(event.group)
    >>> events.publish(GroupStalled("alpha", 7, 60.0))
    >>> events.flush(), paged
    (True, ['alpha'])
    """

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self.waits = False  # for tests: a commit returns when its events are delivered

    def copy(self) -> Events:
        """The same subscribers; one that is added to the copy is not added here."""
        copied = Events()
        copied._subscriptions += self._subscriptions
        copied.waits = self.waits
        return copied

    @overload
    def on(self, *kinds: type[E]) -> Callable[[Callable[[E], object]], Callable[[E], object]]: ...
    @overload
    def on(self, *kinds: str) -> Callable[[F], F]: ...
    def on(self, *kinds: type[Event] | str) -> Callable[[Any], Any]:
        """Subscribe a function to the events of these classes and their subclasses, or of these names."""
        found = _classes(kinds)

        def subscribe(function: Any) -> Any:
            self._subscriptions.append(Subscription(found, _plain(function), Mailbox(_name_of(function))))
            return function

        return subscribe

    def subscribe(self, subscriber: S) -> S:
        """Subscribe the methods of an object that are marked with `on`, or a class, of which it makes an instance.

        All of them are called in one thread, one after the other, so they need no locks between them.

        >>> from stepwell.events import GroupStalled, StepFailed, on
        >>> class Alarms:
        ...     def __init__(self) -> None:
        ...         self.count = 0
        ...     @on(GroupStalled)
        ...     def stalled(self, event: GroupStalled) -> None:
        ...         self.count += 1
        ...     @on(StepFailed)
        ...     def failed(self, event: StepFailed) -> None:
        ...         self.count += 1
        >>> events = Events()
        >>> alarms = events.subscribe(Alarms())
        >>> events.publish(GroupStalled("alpha", 7, 60.0))
        >>> events.flush(), alarms.count
        (True, 1)
        """
        instance = subscriber() if isinstance(subscriber, type) else subscriber
        mailbox = Mailbox(type(instance).__name__)
        found = [Subscription(kinds, method, mailbox) for kinds, method in _marked_methods(instance)]
        if not found:
            raise StepwellError(
                f"{type(instance).__name__} has no subscribed methods; nothing was subscribed. Mark them with "
                "`on` of stepwell.events, for example @on(StepCompleted)"
            )
        self._subscriptions += found
        return subscriber

    def publish(self, event: Event) -> None:
        """Hand an event to its subscribers. It does not wait for them (in tests: briefly)."""
        self._put(event)
        self._keep_up()

    @property
    def dropped(self) -> int:
        """How many events were dropped because a subscriber was too slow."""
        return sum(mailbox.dropped for mailbox in self._mailboxes())

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until all subscribers have received what was published, at most this long; returns whether they have."""
        until = time.monotonic() + seconds
        flushed = [mailbox.flush(max(0.0, until - time.monotonic())) for mailbox in self._mailboxes()]
        return all(flushed)

    def follow(self, hooks: ChangeHooks) -> None:
        """Publish every change of the state of a step or a workflow that this process commits."""
        hooks.after_commit(self._publish_changes, lambda: self._has_subscribers_of(StepChanged))
        hooks.after_workflow_commit(
            self._publish_workflow_changes,
            lambda: self._has_subscribers_of(WorkflowChanged) or self._has_subscribers_of(TaskFinalizationStarted),
        )

    def _has_subscribers_of(self, event: type[Event]) -> bool:
        kinds = [kind for subscription in self._subscriptions for kind in subscription.kinds]
        return any(issubclass(kind, event) or issubclass(event, kind) for kind in kinds)

    def _publish_workflow_changes(self, changes: Sequence[WorkflowChange]) -> None:
        for change in changes:
            for event in events_of_workflow(change):
                self._put(event)
        self._keep_up()

    def _publish_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._put(event_of(change))
        self._keep_up()

    def _put(self, event: Event) -> None:
        for kinds, function, mailbox in self._subscriptions:
            if isinstance(event, kinds):
                mailbox.put(function, event)

    def _keep_up(self) -> None:
        if self.waits:
            for mailbox in self._mailboxes():
                mailbox.keep_up(KEEP_UP_SECONDS)

    def _mailboxes(self) -> list[Mailbox]:
        return list(dict.fromkeys(subscription.mailbox for subscription in self._subscriptions))


def _classes(kinds: Sequence[type[Event] | str]) -> tuple[type[Event], ...]:
    if not kinds or not all(isinstance(kind, str) or _is_event_class(kind) for kind in kinds):
        raise StepwellError(
            f"on{tuple(kinds)!r}: subscribe to classes of stepwell.events or to names of events, "
            'for example on(StepCompleted) or on("step.completed")'
        )
    return tuple(event_class(kind) if isinstance(kind, str) else kind for kind in kinds)


def _is_event_class(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Event)


def _plain(function: Any) -> Any:
    """Refuse a coroutine function: nothing would await it."""
    if inspect.iscoroutinefunction(function):
        raise StepwellError(
            f"{_name_of(function)} is a coroutine function; subscribers are plain functions. They run in a thread of "
            "their own: use asyncio.run_coroutine_threadsafe to reach your event loop"
        )
    return function


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _marked_methods(instance: object) -> Iterator[tuple[tuple[type[Event], ...], Callable[[Any], object]]]:
    for name in dir(type(instance)):
        kinds = getattr(getattr(type(instance), name, None), _KINDS, None)
        if kinds is not None:
            yield kinds, getattr(instance, name)
