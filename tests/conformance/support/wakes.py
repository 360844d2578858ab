"""Waiting for a wake-up, whatever else ends a listener's wait."""

from __future__ import annotations

import time
from collections.abc import Set as AbstractSet

from stepwell.store import Wake
from stepwell.store.wake import Listener

WAIT_SECONDS = 30.0


def first_wakes(listener: Listener) -> AbstractSet[Wake]:
    """The next wake-ups: a listener also ends its wait for a notification that it has sent to itself."""
    give_up = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < give_up:
        found = {*listener.wait([], 1.0), *listener.poll_wakes()}
        if found:
            return found
    raise AssertionError("no wake-up arrived")
