"""One run of a step's code, from `prepare` to `complete`, as a pipeline that ends in an `Ending`.

It does not use the database. It is a coroutine so that sync and async jobs share one implementation: the hooks of a
sync job never suspend, so `run_without_loop` completes it in one step; an async job is awaited on an event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from msgspec.structs import force_setattr

from stepwell.define.definition import JobDefinition
from stepwell.define.job import GUARDS, LATER_STAGES, Job
from stepwell.define.outcomes import NOT_COMPLETED
from stepwell.model import codec, reasons
from stepwell.model.errors import DatabaseBusy, InvalidStep
from stepwell.run import endings
from stepwell.run.current import entered
from stepwell.run.ending import Ending
from stepwell.run.exceptions import ending_of, explicit_ending
from stepwell.run.expand import Expand
from stepwell.run.hooks import call_hook, refuses
from stepwell.run.log_fields import log_beginning
from stepwell.run.running import RunningStep
from stepwell.run.supervision import LeaseLost

T = TypeVar("T")


def run_without_loop(run: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        run.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    run.close()
    raise RuntimeError("an async hook needs an event loop; make `compute` or the function itself async as well")


async def handle(
    definition: JobDefinition[..., Any], step: RunningStep, arguments: str, *, interruptible: bool = False
) -> Ending:
    """Run a claimed step. Whatever its code does, this returns an ending.

    `interruptible`: an interrupt (Ctrl-C, a cancelled task) is meant for the caller and is raised.
    """
    started = time.perf_counter()
    with entered(definition.app.running_steps, step):
        log_beginning(step)
        ending = await _run(definition, step, arguments, interruptible)
    force_setattr(ending, "duration", time.perf_counter() - started)  # frozen, but nothing else refers to it yet
    return ending


async def _run(definition: JobDefinition[..., Any], step: RunningStep, arguments: str, interruptible: bool) -> Ending:
    job: Job | None = None
    try:
        try:
            step.arguments = codec.decode(arguments)
            job = Expand(definition, step.arguments) if step.kind == "map" else definition.instantiate(step.arguments)
        except (TypeError, ValueError) as error:
            return endings.failure(error, reasons.BAD_ARGUMENTS, step)
        object.__setattr__(job, "step", step)  # the job may be a frozen dataclass
        if isinstance(job, Expand):
            return job.run(step)
        return await _stages(definition, job, step)
    except LeaseLost:
        return Ending(verb="lost")
    except BaseException as caught:
        if interruptible and _is_interrupt(definition, caught):
            raise
        try:
            return await ending_of(definition, job, step, _raised_by_the_job(caught))
        except LeaseLost:
            return Ending(verb="lost")
        except BaseException as another:  # raised by a hook that handles the error; it may be an outcome itself
            if interruptible and _is_interrupt(definition, another):
                raise
            return explicit_ending(definition, step, another) or endings.failure(another, reasons.ERROR, step)


async def _stages(definition: JobDefinition[..., Any], job: Job, step: RunningStep) -> Ending:
    hooks = definition.hooks
    if step.stage is not None:
        step.response = definition.signature.result_or_stored(step.response)
    if "prepare" in hooks:
        await call_hook(definition, job.prepare)
    if step.stage is not None:
        return await _later_stages(definition, job, step, step.stage)
    for guard in GUARDS if hooks else ():
        if guard in hooks and refuses(await call_hook(definition, getattr(job, guard))):
            return endings.guard_refused(definition, step, guard)
    returned = await call_hook(definition, job.compute)
    if returned is NOT_COMPLETED:
        return endings.not_completed(step.cooldown, definition.policy.max_not_completed)
    if returned is not None:
        step.response = returned
    later = [name for name in LATER_STAGES if name in hooks] if hooks else []
    if not later:
        return endings.finish(step)
    return _record(step, later[0]) or await _later_stages(definition, job, step, later[0])


def _record(step: RunningStep, next_stage: str) -> Ending | None:
    """Store the end of compute; returns an ending if that is not possible."""
    try:
        response = codec.encode(step.response, "result")
    except Exception as error:
        return endings.unstorable(error, step)
    try:
        step.record(next_stage, response)
    except InvalidStep as error:
        return endings.failure(error, reasons.BAD_CHILDREN, step)
    except DatabaseBusy as error:  # the work is done: a lock conflict must not fail it
        return endings.without_database(error, step)
    return None


async def _later_stages(definition: JobDefinition[..., Any], job: Job, step: RunningStep, stage: str) -> Ending:
    """The stages after compute; a retry starts at the stage that asked for it."""
    for name in LATER_STAGES[LATER_STAGES.index(stage) :]:
        if name not in definition.hooks:
            continue
        step.reached = name
        returned = await call_hook(definition, getattr(job, name))
        if returned is NOT_COMPLETED:
            return endings.not_completed(step.cooldown, definition.policy.max_not_completed, stage=name)
        if name == "complete" or not refuses(returned):
            continue
        if name == "double_check":
            return endings.not_verified(definition, step)
        return endings.retry(definition, step, None, "confirm_or_retry returned False")
    return endings.finish(step)


def _is_interrupt(definition: JobDefinition[..., Any], error: BaseException) -> bool:
    if isinstance(error, asyncio.CancelledError) and definition.is_async:
        # Only if this task was cancelled: a job that awaits another cancelled task has an ordinary error.
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)


def _raised_by_the_job(caught: BaseException) -> BaseException:
    """Unwrap the error that Python raises in place of a StopIteration that leaves a coroutine."""
    if isinstance(caught.__cause__, StopIteration) and str(caught) == "coroutine raised StopIteration":
        return caught.__cause__
    return caught
