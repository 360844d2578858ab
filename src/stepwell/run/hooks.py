"""Calling a job's hooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from stepwell.define.definition import JobDefinition
from stepwell.define.outcomes import Permanent


async def call_hook(definition: JobDefinition[..., Any], hook: Callable[..., Any], *arguments: Any) -> Any:
    """What the hook returns, awaited if it is a coroutine."""
    answer = hook(*arguments)
    if answer is None or not inspect.isawaitable(answer):
        return answer
    if not definition.is_async:  # no event loop is there to wait
        if inspect.iscoroutine(answer):
            answer.close()
        raise Permanent(f"{definition.action} gave something to await without being async: define it with `async def`")
    return await answer


def refuses(answer: Any) -> bool:
    """A guard that returns None has no objection."""
    return answer is not None and not answer
