"""One run of a step's code, from `prepare` to `complete`, as a pipeline that ends in an `Ending`.

It knows no database. It is a coroutine so that it is written once: the hooks of a plain job never suspend, so `drive`
runs it to its end in one go; a coroutine job is awaited by an event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import time
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from msgspec.structs import force_setattr

from stepwell.define.backoff import seconds_before
from stepwell.define.job import GUARDS, LATER_STAGES, Job
from stepwell.define.outcomes import (
    NOT_COMPLETED,
    Fail,
    JustResolve,
    MaxRetriesReached,
    NonNotifiable,
    Outcome,
    Permanent,
    Reschedule,
    Retry,
    Skip,
    Stop,
)
from stepwell.define.registry import JobDefinition
from stepwell.model import codec, reasons
from stepwell.model.errors import BadChildren, DatabaseBusy, DatabaseUnavailable, InvalidStep
from stepwell.run.ending import Ending, Verb
from stepwell.run.running import LeaseLost, RunningStep, running

T = TypeVar("T")

MAX_ERROR: Final = 8_000
MAX_STACK: Final = 64_000
DOUBLE_CHECKS: Final = 2
# A lost database is nobody's fault: the step comes back when there may be one again.
OUTAGE_SECONDS: Final = 5.0

_VERB_OF_GUARD: Final[dict[str, Verb]] = {"start_or_stop": "stop", "start_or_fail": "fail", "start_or_skip": "skip"}


def drive(run: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits for anything."""
    try:
        run.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    run.close()
    raise RuntimeError("an async hook needs an event loop; make `compute` or the function itself async, too")


async def handle(
    definition: JobDefinition[..., Any], step: RunningStep, arguments: str, *, interruptible: bool = False
) -> Ending:
    """Run a claimed step. Whatever its code does, this comes back with an ending.

    `interruptible`: an interrupt is that of whoever runs this (Ctrl-C, a cancelled task), and goes through to them.
    """
    started = time.perf_counter()
    with running(step):
        ending = await _run(definition, step, arguments, interruptible)
    force_setattr(ending, "duration", time.perf_counter() - started)  # nobody else has seen it yet
    return ending


async def _run(definition: JobDefinition[..., Any], step: RunningStep, arguments: str, interruptible: bool) -> Ending:
    job: Job | None = None
    try:
        try:
            step.arguments = codec.decode(arguments)
            job = definition.begin(step.arguments)
        except (TypeError, ValueError) as error:
            return _failure(error, reasons.BAD_ARGUMENTS, step)
        object.__setattr__(job, "step", step)  # the job may be a frozen dataclass
        return await _stages(definition, job, step)
    except LeaseLost:
        return Ending(verb="lost")
    except BaseException as caught:
        if interruptible and _is_interrupt(definition, caught):
            raise
        raised = _raised_by_the_job(caught)
        try:
            return _explicit_outcome(definition, step, raised) or await _route(definition, job, step, raised)
        except LeaseLost:
            return Ending(verb="lost")
        except BaseException as another:  # of a hook that was to deal with the error; it may have its own word to say
            if interruptible and _is_interrupt(definition, another):
                raise
            return _explicit_outcome(definition, step, another) or _failure(another, reasons.ERROR, step)


async def _stages(definition: JobDefinition[..., Any], job: Job, step: RunningStep) -> Ending:
    hooks = definition.hooks
    if step.stage is not None:
        step.response = definition.signature.result_or_stored(step.response)
    if "prepare" in hooks:
        await _call(definition, job.prepare)
    if step.stage is not None:
        return await _later_stages(definition, job, step, step.stage)
    for guard in GUARDS if hooks else ():
        if guard in hooks and _refuses(await _call(definition, getattr(job, guard))):
            return _guard_refused(definition, step, guard)
    returned = await _call(definition, job.compute)
    if returned is NOT_COMPLETED:
        return not_completed(step.cooldown, definition.policy.max_not_completed)
    if returned is not None:
        step.response = returned
    later = [name for name in LATER_STAGES if name in hooks] if hooks else []
    if not later:
        return _finish(step)
    try:
        response = codec.encode(step.response, "response")
    except Exception as error:
        return _unstorable(error, step)
    try:
        step.record(later[0], response)
    except InvalidStep as error:
        return _failure(error, reasons.BAD_CHILDREN, step)
    except DatabaseBusy as error:  # its work is done: that somebody is in the way is not its fault
        return _without_database(error, step)
    return await _later_stages(definition, job, step, later[0])


async def _later_stages(definition: JobDefinition[..., Any], job: Job, step: RunningStep, stage: str) -> Ending:
    """What comes after compute; the next attempt begins at the stage that sends it back."""
    for name in LATER_STAGES[LATER_STAGES.index(stage) :]:
        if name not in definition.hooks:
            continue
        step.reached = name
        answer = await _call(definition, getattr(job, name))
        if answer is NOT_COMPLETED:
            return not_completed(step.cooldown, definition.policy.max_not_completed, stage=name)
        if name == "complete" or not _refuses(answer):
            continue
        if name == "double_check":
            return _not_verified(definition, step)
        return _retry(definition, step, None, "confirm_or_retry is not confirmed yet")
    return _finish(step)


def _finish(step: RunningStep, error: BaseException | None = None) -> Ending:
    """Own code done; an error that did not stop it is kept."""
    try:
        response = codec.encode(step.response, "response")
    except Exception as unstorable:
        return _unstorable(unstorable, step)
    try:
        children = step.take_children()
    except InvalidStep as bad:
        return _failure(bad, reasons.BAD_CHILDREN, step)
    return Ending(
        verb="finish",
        response=None if response == step.recorded else response,
        children=children,
        error=None if error is None else describe(error),
        stack=None if error is None else stack_of(error),
    )


def _unstorable(error: Exception, step: RunningStep) -> Ending:
    # The effects have happened: running it again would repeat them.
    message = f"the result cannot be stored: {error}"
    return Ending(verb="fail", reason=reasons.UNSTORABLE_RESULT, error=message, stage=step.reached)


def _without_database(error: DatabaseUnavailable, step: RunningStep) -> Ending:
    return Ending(verb="hand_back", in_=OUTAGE_SECONDS, error=describe(error), stage=step.reached)


def _not_verified(definition: JobDefinition[..., Any], step: RunningStep) -> Ending:
    tries = step.double_checks + 1
    if tries >= DOUBLE_CHECKS:
        message = f"double_check did not verify the work in {tries} tries"
        return Ending(verb="fail", reason=reasons.NOT_VERIFIED, error=message, stage=step.reached)
    return Ending(verb="check_again", in_=seconds_before(tries, definition.policy.backoff), stage=step.reached)


def _guard_refused(definition: JobDefinition[..., Any], step: RunningStep, guard: str) -> Ending:
    if guard == "start_or_retry":
        return _retry(definition, step, None, "start_or_retry said no")
    error = f"{guard} said no" if guard == "start_or_fail" else None
    return Ending(verb=_VERB_OF_GUARD[guard], reason=guard, error=error)


def _explicit_outcome(definition: JobDefinition[..., Any], step: RunningStep, error: BaseException) -> Ending | None:
    """What the job's code said by an exception that has one meaning only; None if it is for the hooks to judge."""
    match error:
        case Stop():
            return Ending(verb="stop", reason=_reason_given(error) or "stopped")
        case Skip():
            return Ending(verb="skip", reason=_reason_given(error) or "skipped")
        case Reschedule():
            return Ending(verb="throttle", in_=error.in_, at=error.at, stage=step.reached)
        case Retry():
            return _retry(definition, step, error)
        case Fail():
            return _failure(error if error.error is None else error.error, reasons.ERROR, step)
        case SystemExit():
            return not_completed(step.cooldown, definition.policy.max_not_completed, describe(error), step.reached)
        case DatabaseUnavailable() if not isinstance(error, DatabaseBusy):  # it may be the job that keeps it busy
            return _without_database(error, step)
        case BadChildren():
            return _failure(error, reasons.BAD_CHILDREN, step)
        case MaxRetriesReached():
            return _failure(error, reasons.MAX_RETRIES_REACHED, step)
        case NonNotifiable():
            return _failure(error, reasons.ERROR, step, notify=False)
    return None


async def _route(
    definition: JobDefinition[..., Any], job: Job | None, step: RunningStep, error: BaseException
) -> Ending:
    """Fail if the retries are spent; else retry it, ignore it, resolve it, or fail; in this order."""

    async def hook(name: str) -> Any:
        """What the job's hook says about the error; None if it has none."""
        return (
            await _call(definition, getattr(job, name), error) if job is not None and name in definition.hooks else None
        )

    if isinstance(error, JustResolve):
        await hook("resolve_exception")
        return _finish(step, error)
    if step.retries >= step.max_retries > 0:  # a job that has no retries at all has not spent them: its hooks are asked
        return _failure(error, reasons.MAX_RETRIES_REACHED, step)
    if not isinstance(error, Permanent):
        said = await hook("retry_exception")
        if (definition.policy.retries(error) if said is None else said) and step.max_retries > 0:
            return _retry(definition, step, error)
    if await hook("ignore_exception") or await hook("resolve_exception"):
        return _finish(step, error)
    return _failure(error, reasons.ERROR, step)


def _retry(
    definition: JobDefinition[..., Any], step: RunningStep, error: BaseException | None, message: str = ""
) -> Ending:
    text, stack = (message, None) if error is None else (describe(error), stack_of(error))
    if step.retries >= step.max_retries:
        return Ending(verb="fail", reason=reasons.MAX_RETRIES_REACHED, error=text, stack=stack, stage=step.reached)
    if isinstance(error, Retry) and (error.at is not None or error.in_ is not None):
        at, in_ = error.at, error.in_ or 0.0
    else:
        at, in_ = None, seconds_before(step.retries + 1, definition.policy.backoff, error)
    return Ending(verb="retry_later", at=at, in_=in_, error=text, stack=stack, stage=step.reached)


def not_completed(cooldown: float, limit: int, error: str | None = None, stage: str | None = None) -> Ending:
    """It has not come to its end, and comes back after its cooldown."""
    return Ending(verb="not_completed", in_=cooldown, limit=limit, error=error, stage=stage)


def _failure(error: BaseException, reason: str, step: RunningStep, *, notify: bool = True) -> Ending:
    return Ending(
        verb="fail", reason=reason, error=describe(error), stack=stack_of(error), stage=step.reached, notify=notify
    )


async def _call(definition: JobDefinition[..., Any], hook: Callable[..., Any], *arguments: Any) -> Any:
    answer = hook(*arguments)
    if answer is None or not inspect.isawaitable(answer):
        return answer
    if not definition.is_async:  # nobody is there to wait
        if inspect.iscoroutine(answer):
            answer.close()
        raise Permanent(f"{definition.action} gave something to await without being async: define it with `async def`")
    return await answer


def _is_interrupt(definition: JobDefinition[..., Any], error: BaseException) -> bool:
    if isinstance(error, asyncio.CancelledError) and definition.is_async:
        # Of this very task; a job that awaits something else that was cancelled has an error like any other.
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)


def _raised_by_the_job(caught: BaseException) -> BaseException:
    """Python lets no StopIteration out of a coroutine, and raises another error in its place."""
    if isinstance(caught.__cause__, StopIteration) and str(caught) == "coroutine raised StopIteration":
        return caught.__cause__
    return caught


def _refuses(answer: Any) -> bool:
    """A guard that says nothing has nothing against it."""
    return answer is not None and not answer


def _reason_given(error: Outcome) -> str:
    """What a job gave as its reason, never to be taken for one of the engine's own."""
    try:
        text = codec.clean_text(str(error), 200)
    except Exception:
        return ""
    return f"job: {text}" if text in reasons.ENGINE_REASONS else text


def describe(error: BaseException) -> str:
    """The error in one line, even if it cannot print itself."""
    try:
        text = str(error)
    except Exception:
        text = "<its text cannot be printed>"
    return codec.clean_text(f"{type(error).__name__}: {text}" if text else type(error).__name__, MAX_ERROR)


def stack_of(error: BaseException) -> str:
    try:
        return codec.clean_text("".join(traceback.format_exception(error)), MAX_STACK)
    except Exception:
        return "<its stack cannot be printed>"
