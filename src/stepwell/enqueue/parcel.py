"""New steps as plain data, for the way from a job's process to the worker that writes them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from stepwell import codec
from stepwell.enqueue.draft import NewStep, check, said


def wrap(draft: NewStep) -> dict[str, Any]:
    """Everything that is not the default, as JSON can carry it; refuses what could not be created."""
    check(draft)
    wrapped = {"action": draft.action, **said(draft)}
    if isinstance(draft.delay, timedelta):
        wrapped["delay"] = draft.delay.total_seconds()
    if draft.dispatch_after is not None:
        wrapped["dispatch_after"] = draft.dispatch_after.isoformat()
    return wrapped | {"arguments": codec.decode(codec.encode(draft.arguments))}


def unwrap(wrapped: dict[str, Any]) -> NewStep:
    """The new step again.

    >>> unwrap(wrap(NewStep(action="fetch", arguments={"n": 1}, delay=timedelta(seconds=2), key="k"))).delay
    2.0
    """
    values = dict(wrapped)
    if "dispatch_after" in values:
        values["dispatch_after"] = datetime.fromisoformat(values["dispatch_after"])
    if "relatable" in values:
        values["relatable"] = tuple(values["relatable"])
    return NewStep(**values)
