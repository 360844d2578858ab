"""Mapping an exception raised by a job to the ending of its run."""

from __future__ import annotations

from typing import Any

from stepwell.define.definition import JobDefinition
from stepwell.define.job import Job
from stepwell.define.outcomes import (
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
from stepwell.model import codec, reasons
from stepwell.model.error_text import describe
from stepwell.model.errors import BadChildren, DatabaseBusy, DatabaseUnavailable
from stepwell.run import endings
from stepwell.run.ending import Ending
from stepwell.run.hooks import call_hook
from stepwell.run.running import RunningStep


async def ending_of(
    definition: JobDefinition[..., Any], job: Job | None, step: RunningStep, error: BaseException
) -> Ending:
    """The ending of a run that raised this; `job` is None if it could not be instantiated."""
    explicit = explicit_ending(definition, step, error)
    return explicit or await _decided_by_hooks(definition, job, step, error)


def explicit_ending(definition: JobDefinition[..., Any], step: RunningStep, error: BaseException) -> Ending | None:
    """The ending that an exception asks for by its type; None if the job's hooks decide."""
    match error:
        case Stop():
            return Ending(verb="stop", reason=_reason_given(error) or "stopped")
        case Skip():
            return Ending(verb="skip", reason=_reason_given(error) or "skipped")
        case Reschedule():
            return Ending(verb="throttle", in_=error.in_, at=error.at, stage=step.reached)
        case Retry():
            return endings.retry(definition, step, error)
        case Fail():
            return endings.failure(error if error.error is None else error.error, reasons.ERROR, step)
        case SystemExit():
            limit = definition.policy.max_not_completed
            return endings.not_completed(step.cooldown, limit, describe(error), step.reached)
        case DatabaseUnavailable() if not isinstance(error, DatabaseBusy):  # the job itself may hold the lock
            return endings.without_database(error, step)
        case BadChildren():
            return endings.failure(error, reasons.BAD_CHILDREN, step)
        case MaxRetriesReached():
            return endings.failure(error, reasons.MAX_RETRIES_REACHED, step)
        case NonNotifiable():
            return endings.failure(error, reasons.ERROR, step, notify=False)
    return None


async def _decided_by_hooks(
    definition: JobDefinition[..., Any], job: Job | None, step: RunningStep, error: BaseException
) -> Ending:
    """Fail if the retries are spent; else retry, ignore, resolve or fail, in this order."""

    async def hook(name: str) -> Any:
        """The return value of the job's hook; None if it has no such hook."""
        if job is None or name not in definition.hooks:
            return None
        return await call_hook(definition, getattr(job, name), error)

    if isinstance(error, JustResolve):
        await hook("resolve_exception")
        return endings.finish(step, error)
    if step.retries >= step.max_retries > 0:  # with max_retries=0 nothing was spent: the hooks decide
        return endings.failure(error, reasons.MAX_RETRIES_REACHED, step)
    if not isinstance(error, Permanent):
        returned = await hook("retry_exception")
        if (definition.policy.retries(error) if returned is None else returned) and step.max_retries > 0:
            return endings.retry(definition, step, error)
    if await hook("ignore_exception") or await hook("resolve_exception"):
        return endings.finish(step, error)
    return endings.failure(error, reasons.ERROR, step)


def _reason_given(error: Outcome) -> str:
    """The reason that a job gave, prefixed if it equals one of the engine's own."""
    try:
        text = codec.clean_text(str(error), 200)
    except Exception:
        return ""
    return f"job: {text}" if text in reasons.ENGINE_REASONS else text
