"""New steps as plain data, to send them from a job's process to the worker that writes them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from stepwell.define.drafts import NewStep, Planned, ResolvedStep, check, non_default_settings
from stepwell.model import codec


def to_wire(draft: NewStep) -> dict[str, Any]:
    """The fields that are not at their defaults, as JSON-compatible data; rejects a draft that cannot be created."""
    check(draft)
    wrapped = {"action": draft.action, **non_default_settings(draft)}
    if isinstance(draft, ResolvedStep):
        wrapped["resolved"] = True
    if isinstance(draft.delay, timedelta):
        wrapped["delay"] = draft.delay.total_seconds()
    if draft.dispatch_after is not None:
        wrapped["dispatch_after"] = draft.dispatch_after.isoformat()
    if draft.planned is not None:
        wrapped["planned"] = msgspec.to_builtins(draft.planned)
    return wrapped | {"arguments": codec.decode(codec.encode(draft.arguments))}


def from_wire(wrapped: dict[str, Any]) -> NewStep:
    """The new step, from what `to_wire` returned.

    >>> from_wire(to_wire(NewStep(action="fetch", arguments={"n": 1}, delay=timedelta(seconds=2), key="k"))).delay
    2.0
    """
    values = dict(wrapped)
    if "dispatch_after" in values:
        values["dispatch_after"] = datetime.fromisoformat(values["dispatch_after"])
    if "relatable" in values:
        values["relatable"] = tuple(values["relatable"])
    if "planned" in values:
        values["planned"] = msgspec.convert(values["planned"], Planned)
    return ResolvedStep(**values) if values.pop("resolved", False) else NewStep(**values)
