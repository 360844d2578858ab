"""The job of a step: registered under its action, or found there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from stepwell.define.definition import JobDefinition
from stepwell.define.policy import Policy
from stepwell.define.registration import Registration
from stepwell.model.errors import StepwellError
from stepwell.workflow.declare.settings import read_settings
from stepwell.workflow.declare.type_names import code_name
from stepwell.workflow.steps import CodeStep
from stepwell.workflow.template import StepTemplate

if TYPE_CHECKING:
    from stepwell.app import Stepwell

_OF_JOBS: Final = ("timeout", "cooldown", "delay", "queue", "priority")


def registered_job(
    app: Stepwell, code: Any, action: str, settings: Mapping[str, Any], *, replace: bool
) -> Iterator[JobDefinition[..., Any] | str]:
    """The job that runs the code under this action, or what is wrong with it."""
    if problems := list(problems_of_code(code)):
        yield from problems
        return
    existing = app.jobs.get(action)
    if existing is not None and existing.code is code:
        yield existing
        return
    if existing is not None and not replace:
        yield (
            f"the action {action!r} is already that of other code ({code_name(existing.code)}, and here "
            f"{code_name(code)}); choose another name for one of them (action=…)"
        )
        return
    values, bad = read_settings({key: settings[key] for key in settings if key not in ("limit", "arguments")}, "job")
    if bad:
        return  # reported with the step
    one = StepTemplate(name="any", **{key: values[key] for key in ("retry_limit", "retryable") if key in values})
    kept = {key: values[key] for key in _OF_JOBS if values.get(key) is not None}
    if existing is not None:
        app.jobs.remove(action)
    try:
        yield Registration(app, action, {"retries": one.max_retries, **kept}, Policy())(code)
    except (StepwellError, TypeError, ValueError) as error:
        yield str(error)


def problems_of_code(code: Any) -> Iterator[str]:
    """Why code cannot be told apart by its name; the content of a template names it."""
    if not callable(code):
        yield f"{code!r} cannot run as a step: use a function, a coroutine function or a Job class"
    elif getattr(code, "__name__", "") == "<lambda>":
        yield "a lambda has no name by which it can be told from others; define a function"
    elif not hasattr(code, "__qualname__"):
        yield f"{code!r} has no name by which it can be told from others; define a function"
    elif inspect.isfunction(inner := inspect.unwrap(code)) and inner.__closure__:
        names = ", ".join(inner.__code__.co_freevars)
        yield (
            f"{inner.__qualname__} is a closure: what it does depends on {names}, which its name does not say; pass "
            "that as an argument (arguments=…), or define the function at module level"
        )


def code_of(code: Callable[..., Any]) -> Callable[..., Any]:
    """The code itself, if it is already a step of another workflow."""
    return code.code if isinstance(code, CodeStep) else code
