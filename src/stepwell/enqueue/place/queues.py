"""The queue of a step."""

from __future__ import annotations

from typing import Final

PRIORITY_QUEUE: Final = "priority"
DEFAULT_QUEUE: Final = "default"


def queue_of(requested: str | None, priority: str, queues: set[str]) -> str:
    """The requested queue if it exists; otherwise high-priority steps go to the queue `priority`.

    >>> queue_of("emails", "high", {"emails"}), queue_of("unknown", "high", {"emails"}), queue_of(None, "high", set())
    ('emails', 'priority', 'priority')
    """
    if requested is not None and requested in queues:
        return requested
    return PRIORITY_QUEUE if priority == "high" else DEFAULT_QUEUE
