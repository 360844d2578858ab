"""Subscribers: by function, class and name; whatever one of them does changes nothing for anybody else."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator

import pytest

from stepwell import StepwellError
from stepwell.events import Event, Events, GroupStalled, StepCompleted, StepFailed, StepRescued, on
from stepwell.events.mailbox import Mailbox

STALLED = GroupStalled("alpha", 7, 60.0)
RESCUED = StepRescued(7, "charge", "worker-1", poison=False)


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """What a slow subscriber waits for; set at the end of the test in any case."""
    released = threading.Event()
    yield released
    released.set()


def test_a_function_receives_the_classes_and_names_it_asked_for_and_their_subclasses(events: Events) -> None:
    classes: list[Event] = []
    names: list[Event] = []
    everything: list[Event] = []
    events.on(GroupStalled)(classes.append)
    events.on("group.no_progress", "step.rescued")(names.append)
    events.on(Event)(everything.append)
    for event in (STALLED, RESCUED):
        events.publish(event)
    assert events.flush()
    assert (classes, names, everything) == ([STALLED], [STALLED, RESCUED], [STALLED, RESCUED])


class Log:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []

    def _add(self, method: str, event: Event) -> None:
        self.seen.append((method, event.name, threading.get_ident()))

    @on(GroupStalled)
    def stalled(self, event: GroupStalled) -> None:
        self._add("stalled", event)

    @on("step.rescued", "group.no_progress")
    def both(self, event: Event) -> None:
        self._add("both", event)


class LongerLog(Log):
    def stalled(self, event: GroupStalled) -> None:
        """Not marked: an overridden method is subscribed only if it says so itself."""


def test_an_object_receives_events_by_its_marked_methods_all_in_one_thread(events: Events) -> None:
    log = events.subscribe(Log())
    for event in (STALLED, RESCUED):
        events.publish(event)
    assert events.flush()
    assert [each[:2] for each in log.seen] == [
        ("both", "group.no_progress"),
        ("stalled", "group.no_progress"),
        ("both", "step.rescued"),
    ]
    assert len({thread for _, _, thread in log.seen} - {threading.get_ident()}) == 1


def test_methods_are_inherited_and_can_be_overridden(events: Events) -> None:
    log = events.subscribe(LongerLog())
    events.publish(STALLED)
    assert events.flush()
    assert [method for method, *_ in log.seen] == ["both"]


def test_a_class_is_subscribed_with_an_instance_of_it(events: Events) -> None:
    seen: list[Event] = []

    @events.subscribe
    class Alarm:
        @on(GroupStalled)
        def stalled(self, event: GroupStalled) -> None:
            seen.append(event)

    assert isinstance(Alarm, type)
    events.publish(STALLED)
    assert events.flush()
    assert seen == [STALLED]


@pytest.mark.parametrize(
    ("subscribe", "message"),
    [
        (lambda events: events.on("step.complete"), "unknown event 'step.complete'; did you mean step.completed"),
        (lambda events: events.on(), "subscribe to classes"),
        (lambda events: events.on(int), "subscribe to classes"),
        (lambda events: events.subscribe(object()), "object has no subscribed methods"),
    ],
)
def test_what_could_never_be_called_is_refused(events: Events, subscribe: object, message: str) -> None:
    with pytest.raises(StepwellError, match=message):
        subscribe(events)  # type: ignore[operator]


def test_a_coroutine_function_is_refused(events: Events) -> None:
    async def later(event: StepCompleted) -> None: ...

    with pytest.raises(StepwellError, match="later is a coroutine function"):
        events.on(StepCompleted)(later)


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(3), KeyboardInterrupt()])
def test_a_subscriber_that_raises_is_logged_and_gets_the_next_event(
    events: Events, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Event] = []

    @events.on(Event)
    def raises(event: Event) -> None:
        seen.append(event)
        raise error

    others: list[Event] = []
    events.on(Event)(others.append)
    events.publish(STALLED)
    events.publish(RESCUED)
    assert events.flush()
    assert seen == others == [STALLED, RESCUED]
    assert caplog.text.count("raises of group.no_progress raised") == 1


def test_a_slow_subscriber_delays_neither_the_publisher_nor_the_others(
    events: Events, released: threading.Event
) -> None:
    slow: list[Event] = []
    quick: list[Event] = []

    @events.on(Event)
    def wait(event: Event) -> None:
        released.wait()
        slow.append(event)

    events.subscribe(quick_subscriber := Log())
    events.on(Event)(quick.append)
    events.publish(STALLED)
    events.publish(RESCUED)
    assert not events.flush(0.01)
    assert quick == [STALLED, RESCUED]
    assert len(quick_subscriber.seen) == 3
    assert slow == []
    released.set()
    assert events.flush()
    assert slow == [STALLED, RESCUED]


def test_a_full_mailbox_drops_what_is_new_and_says_when_it_begins_and_ends(
    released: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    mailbox = Mailbox("audit", capacity=2)
    began = threading.Event()
    seen: list[int] = []

    def wait(event: GroupStalled) -> None:
        began.set()
        released.wait()
        seen.append(event.step_id)

    mailbox.put(wait, GroupStalled("alpha", 0, 1.0))
    began.wait()
    for number in range(1, 7):
        mailbox.put(wait, GroupStalled("alpha", number, 1.0))
    assert mailbox.dropped == 4
    released.set()
    assert mailbox.flush()
    assert seen == [0, 1, 2]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            "subscriber audit is too slow: 2 events wait for it, and new ones are dropped until it has caught up",
        ),
        (logging.WARNING, "subscriber audit has caught up; it missed 4 events"),
    ]
    mailbox.put(wait, STALLED)
    assert mailbox.flush()
    assert (seen[-1], mailbox.dropped) == (7, 4)


def test_events_that_a_subscriber_publishes_itself_are_delivered_after_this_one(events: Events) -> None:
    events.waits = True
    seen: list[Event] = []

    @events.on(GroupStalled)
    def again(event: GroupStalled) -> None:
        events.publish(RESCUED)  # must not wait for itself
        seen.append(event)

    events.on(StepRescued, StepFailed)(seen.append)
    events.publish(STALLED)
    assert events.flush()
    assert set(seen) == {STALLED, RESCUED}


def test_in_tests_an_event_is_delivered_when_publish_returns_unless_the_subscriber_blocks(
    events: Events, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.events.subscribers.KEEP_UP_SECONDS", 0.01)
    events.waits = True
    seen: list[Event] = []
    events.on(StepRescued)(seen.append)
    events.on(GroupStalled)(lambda event: released.wait())
    events.publish(RESCUED)
    assert seen == [RESCUED]
    for _ in range(100):
        events.publish(STALLED)  # waits once for the one that blocks, not a hundred times
    events.publish(RESCUED)
    assert seen == [RESCUED, RESCUED]


def test_a_thread_without_events_ends_and_the_next_event_starts_another(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.events.mailbox.IDLE_SECONDS", 0.001)
    threads: list[threading.Thread] = []
    events.on(Event)(lambda event: threads.append(threading.current_thread()))
    for count in (1, 2):
        events.publish(STALLED)
        assert events.flush()
        assert len(threads) == count
        threads[-1].join(10)
        assert not threads[-1].is_alive()
    assert threads[0] is not threads[1]


def test_a_forked_child_delivers_its_own_events_and_not_those_of_its_parent(
    events: Events, released: threading.Event
) -> None:
    seen: list[Event] = []

    @events.on(Event)
    def wait(event: Event) -> None:
        if event == STALLED:
            released.wait()
        seen.append(event)

    events.publish(STALLED)
    child = os.fork()
    if child == 0:
        events.publish(RESCUED)
        os._exit(0 if events.flush() and seen == [RESCUED] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    released.set()
    assert events.flush()
    assert seen == [STALLED]
