"""Calling a job's hooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from stepwell.define.definition import JobDefinition
from stepwell.define.outcomes import Permanent


async def call_hook(definition: JobDefinition[..., Any], hook: Callable[..., Any], *arguments: Any) -> Any:
    """The return value of the hook, awaited if it is awaitable."""
    returned = hook(*arguments)
    if returned is None or not inspect.isawaitable(returned):
        return returned
    if not definition.is_async:  # there is no event loop
        if inspect.iscoroutine(returned):
            returned.close()
        raise Permanent(f"{definition.action} returned an awaitable but is not async: define it with `async def`")
    return await returned


def refuses(returned: Any) -> bool:
    """Whether a hook returned False or another false value; None counts as True."""
    return returned is not None and not returned
