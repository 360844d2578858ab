"""One run of a step's code, from `prepare` to `complete`, as a pipeline that ends in an `Ending`.

It knows no database. It is a coroutine so that it is written once: the hooks of a plain job never suspend, so `drive`
runs it to its end in one go; a coroutine job is awaited by an event loop.
"""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import msgspec

from stepwell import codec
from stepwell.define.job import GUARDS, LATER_STAGES, Job
from stepwell.define.registry import JobDefinition
from stepwell.model import reasons
from stepwell.model.errors import DatabaseUnavailable
from stepwell.run.backoff import seconds_before
from stepwell.run.ending import Ending, Verb
from stepwell.run.outcomes import (
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
from stepwell.run.running import LeaseLost, RunningStep, _running

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


async def handle(definition: JobDefinition[..., Any], step: RunningStep, arguments: str) -> Ending:
    """Run a claimed step. Whatever its code does, this comes back with an ending."""
    started = time.perf_counter()
    token = _running.set(step)
    try:
        ending = await _run(definition, step, arguments)
    finally:
        _running.reset(token)
    return msgspec.structs.replace(ending, duration=time.perf_counter() - started)


async def _run(definition: JobDefinition[..., Any], step: RunningStep, arguments: str) -> Ending:
    job: Job | None = None
    try:
        try:
            step.arguments = codec.decode(arguments)
            job = definition.begin(step.arguments)
        except (TypeError, ValueError) as error:
            return _failure(error, reasons.BAD_ARGUMENTS)
        job.step = step
        return await _stages(definition, job, step)
    except LeaseLost:
        return Ending(verb="lost")
    except BaseException as error:
        try:
            return await _route(definition, job, step, error)
        except LeaseLost:
            return Ending(verb="lost")
        except BaseException as another:  # a hook that was to deal with the error has one itself
            return _failure(another, reasons.ERROR)


async def _stages(definition: JobDefinition[..., Any], job: Job, step: RunningStep) -> Ending:
    hooks = definition.hooks
    if "prepare" in hooks:
        await _call(job.prepare)
    stage = step.stage
    response: str | None = None
    if stage is None:
        for guard in GUARDS:
            if guard in hooks and _refuses(await _call(getattr(job, guard))):
                return _turned_away(definition, step, guard)
        returned = await _call(job.compute)
        if returned is NOT_COMPLETED:
            return not_completed(step.cooldown, definition.policy.max_not_completed)
        try:
            response = codec.encode(step.response if returned is None else returned, "response")
        except Exception as error:
            # The effects have happened: running it again would repeat them.
            return Ending(verb="fail", reason=reasons.UNSTORABLE_RESULT, error=f"the result cannot be stored: {error}")
        later = [name for name in LATER_STAGES if name in hooks]
        if not later:
            return Ending(verb="finish", response=response, children=step.take_children())
        stage = later[0]
        step.record(stage, response)
    return await _later_stages(definition, job, step, stage)


async def _later_stages(definition: JobDefinition[..., Any], job: Job, step: RunningStep, stage: str) -> Ending:
    """What comes after compute; the next attempt begins at the stage that sends it back."""
    hooks = definition.hooks
    for name in LATER_STAGES[LATER_STAGES.index(stage) :]:
        if name not in hooks:
            continue
        step.reach(name)
        answer = await _call(getattr(job, name))
        if name == "complete" or not _refuses(answer):
            continue
        if name == "double_check":
            return _not_verified(definition, step)
        return _retry(definition, step, None, "confirm_or_retry is not confirmed yet")
    response = None if step.response is None else codec.encode(step.response, "response")
    return Ending(verb="finish", response=response, children=step.take_children())


def _not_verified(definition: JobDefinition[..., Any], step: RunningStep) -> Ending:
    tries = step.double_checks + 1
    if tries >= DOUBLE_CHECKS:
        message = f"double_check did not verify the work in {tries} tries"
        return Ending(verb="fail", reason=reasons.NOT_VERIFIED, error=message, stage=step.reached)
    return Ending(verb="check_again", in_=seconds_before(tries, definition.policy.backoff), stage=step.reached)


def _turned_away(definition: JobDefinition[..., Any], step: RunningStep, guard: str) -> Ending:
    if guard == "start_or_retry":
        return _retry(definition, step, None, "start_or_retry said no")
    error = f"{guard} said no" if guard == "start_or_fail" else None
    return Ending(verb=_VERB_OF_GUARD[guard], reason=guard, error=error)


async def _route(
    definition: JobDefinition[..., Any], job: Job | None, step: RunningStep, error: BaseException
) -> Ending:
    """What an exception means for the step (SPEC 5)."""
    match error:
        case Stop():
            return Ending(verb="stop", reason=_said(error) or "stopped")
        case Skip():
            return Ending(verb="skip", reason=_said(error) or "skipped")
        case Reschedule():
            return Ending(verb="throttle", in_=error.in_, at=error.at, stage=step.reached)
        case Retry():
            return _retry(definition, step, error)
        case Fail():
            return _failure(error.error or error, reasons.ERROR, stage=step.reached)
        case SystemExit():
            return not_completed(step.cooldown, definition.policy.max_not_completed, describe(error), step.reached)
        case DatabaseUnavailable():
            return Ending(verb="hand_back", in_=OUTAGE_SECONDS, error=describe(error), stage=step.reached)
        case MaxRetriesReached():
            return _failure(error, reasons.MAX_RETRIES_REACHED, stage=step.reached)
        case NonNotifiable():
            return _failure(error, reasons.ERROR, stage=step.reached, notify=False)
    if job is None:
        return _failure(error, reasons.ERROR)
    if not isinstance(error, JustResolve | Permanent):
        wanted = await _call(job.retry_exception, error) if "retry_exception" in definition.hooks else None
        if (definition.policy.retries(error) if wanted is None else wanted) and step.retries < step.max_retries:
            return _retry(definition, step, error)
    if not isinstance(error, JustResolve) and await _says_yes(definition, job, "ignore_exception", error):
        return _done_despite(step, error)
    if await _says_yes(definition, job, "resolve_exception", error) or isinstance(error, JustResolve):
        return _done_despite(step, error)
    spent = step.max_retries > 0 and step.retries >= step.max_retries and not isinstance(error, Permanent)
    return _failure(error, reasons.MAX_RETRIES_REACHED if spent else reasons.ERROR, stage=step.reached)


async def _says_yes(definition: JobDefinition[..., Any], job: Job, hook: str, error: BaseException) -> bool:
    return hook in definition.hooks and bool(await _call(getattr(job, hook), error))


def _done_despite(step: RunningStep, error: BaseException) -> Ending:
    """Own code done, error kept."""
    recorded = step.reached is not None and step.response is None
    return Ending(
        verb="finish",
        response=None if recorded else codec.encode(step.response, "response"),
        children=step.take_children(),
        error=describe(error),
        stack=stack_of(error),
    )


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


def _failure(error: BaseException, reason: str, *, stage: str | None = None, notify: bool = True) -> Ending:
    return Ending(verb="fail", reason=reason, error=describe(error), stack=stack_of(error), stage=stage, notify=notify)


async def _call(hook: Any, *arguments: Any) -> Any:
    answer = hook(*arguments)
    return await answer if inspect.isawaitable(answer) else answer


def _refuses(answer: Any) -> bool:
    """A guard that says nothing has nothing against it."""
    return answer is not None and not answer


def _said(error: Outcome) -> str:
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
