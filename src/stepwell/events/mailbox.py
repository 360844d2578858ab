"""A mailbox: the events that one subscriber has not received yet, and the thread that delivers them.

Publishing must not depend on what a subscriber does: it puts the event into a bounded queue and continues. Every
subscriber has a queue and a thread of its own, so a slow one delays neither the engine nor the other subscribers.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from stepwell.events.event import Event
from stepwell.store.forks import survive_forks

_LOGGER: Final = logging.getLogger("stepwell.events")

# A map of 10,000 elements publishes as many events with one commit: room for ten of those, about 30 MB when full.
CAPACITY: Final = 100_000
# A thread without events ends, so that apps that are dropped without `close` leave nothing behind.
IDLE_SECONDS: Final = 10.0
# How long the end of a process or of an app waits for its subscribers: a third of what service managers usually allow.
FLUSH_SECONDS: Final = 10.0


class Mailbox:
    """Delivers events to one subscriber, in order and one at a time.

    When it is full, new events are dropped and counted in `dropped`.
    """

    def __init__(self, subscriber: str, capacity: int = CAPACITY) -> None:
        self._subscriber = subscriber
        self._capacity = capacity
        self.dropped = 0
        self._start_empty()
        survive_forks(self)

    def _start_empty(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Callable[[Any], object], Event]] = deque()
        self._thread: threading.Thread | None = None
        self._delivers = False
        self._is_late = False  # a wait for it has timed out
        self._dropped_before = self.dropped  # when it last was empty

    def put(self, function: Callable[[Any], object], event: Event) -> None:
        """Deliver an event soon; never waits."""
        with self._changed:
            if len(self._waiting) >= self._capacity or not self._has_thread():
                self._drop()
                return
            self._waiting.append((function, event))
            self._changed.notify_all()

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until everything is delivered, at most this long; returns whether it is."""
        with self._changed:
            if self._thread is threading.current_thread():
                return True  # the subscriber itself asks
            done = self._changed.wait_for(self._is_empty, seconds)
            self._is_late = not done
            return done

    def keep_up(self, seconds: float) -> None:
        """Wait like `flush`, but not again for a subscriber that was too slow and has not caught up since."""
        if not self._is_late:
            self.flush(seconds)

    def _is_empty(self) -> bool:
        return not self._waiting and not self._delivers

    def _has_thread(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._deliver_all, name=f"events-{self._subscriber}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down, or there are too many threads
                return False
            self._thread = thread
            atexit.register(self.flush)
        return True

    def _drop(self) -> None:
        if self.dropped == self._dropped_before:
            _LOGGER.warning(
                "subscriber %s is too slow: %d events wait for it, and new ones are dropped until it has caught up",
                self._subscriber,
                len(self._waiting),
            )
        self.dropped += 1

    def _deliver_all(self) -> None:
        while (delivery := self._next()) is not None:
            function, event = delivery
            try:
                function(event)
            except BaseException:  # also SystemExit: nothing that a subscriber does ends the delivery
                _LOGGER.exception("subscriber %s of %s raised", self._subscriber, event.name)

    def _next(self) -> tuple[Callable[[Any], object], Event] | None:
        """The next event, after waiting for one; None ends the thread."""
        with self._changed:
            self._delivers = False
            if not self._waiting:
                self._caught_up()
            if not self._changed.wait_for(lambda: bool(self._waiting), IDLE_SECONDS):
                self._thread = None
                atexit.unregister(self.flush)
                return None
            self._delivers = True
            return self._waiting.popleft()

    def _caught_up(self) -> None:
        self._is_late = False
        if dropped := self.dropped - self._dropped_before:
            _LOGGER.warning("subscriber %s has caught up; it missed %d events", self._subscriber, dropped)
            self._dropped_before = self.dropped
        self._changed.notify_all()

    # forks ----------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        self._changed.acquire()

    def after_fork_in_parent(self) -> None:
        self._changed.release()

    def after_fork_in_child(self) -> None:
        """What waits is delivered by the parent; the thread does not exist here."""
        self._start_empty()
