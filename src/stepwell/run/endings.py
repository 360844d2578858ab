"""The ways in which a run can end, one function for each."""

from __future__ import annotations

from typing import Any, Final

from stepwell.define.backoff import seconds_before
from stepwell.define.definition import JobDefinition
from stepwell.define.outcomes import Retry
from stepwell.model import codec, reasons
from stepwell.model.error_text import describe, stack_of
from stepwell.model.errors import DatabaseUnavailable, InvalidStep
from stepwell.run.ending import Ending, Verb
from stepwell.run.running import RunningStep

MAX_DOUBLE_CHECKS: Final = 2  # the second double_check that returns False fails the step
# An outage is not the job's fault: the step runs again once the database may be back.
OUTAGE_SECONDS: Final = 5.0

_VERB_OF_GUARD: Final[dict[str, Verb]] = {"start_or_stop": "stop", "start_or_fail": "fail", "start_or_skip": "skip"}


def finish(step: RunningStep, error: BaseException | None = None) -> Ending:
    """The own code is done. An error that was ignored or resolved is stored with the step."""
    try:
        response = codec.encode(step.response, "result")
    except Exception as unencodable:
        return unstorable(unencodable, step)
    try:
        children = step.take_children()
    except InvalidStep as bad:
        return failure(bad, reasons.BAD_CHILDREN, step)
    return Ending(
        verb="finish",
        response=None if response == step.recorded else response,
        children=children,
        error=None if error is None else describe(error),
        stack=None if error is None else stack_of(error),
    )


def unstorable(error: Exception, step: RunningStep) -> Ending:
    """Fail without a retry: the side effects have happened, and another run would repeat them."""
    message = f"the result cannot be stored: {error}"
    return Ending(verb="fail", reason=reasons.UNSTORABLE_RESULT, error=message, stage=step.reached)


def without_database(error: DatabaseUnavailable, step: RunningStep) -> Ending:
    """Return to Pending without spending a retry."""
    return Ending(verb="hand_back", in_=OUTAGE_SECONDS, error=describe(error), stage=step.reached)


def not_verified(definition: JobDefinition[..., Any], step: RunningStep) -> Ending:
    """`double_check` returned False: check once more, then fail."""
    tries = step.double_checks + 1
    if tries >= MAX_DOUBLE_CHECKS:
        message = f"double_check returned False {tries} times"
        return Ending(verb="fail", reason=reasons.NOT_VERIFIED, error=message, stage=step.reached)
    return Ending(verb="check_again", in_=seconds_before(tries, definition.policy.backoff), stage=step.reached)


def guard_refused(definition: JobDefinition[..., Any], step: RunningStep, guard: str) -> Ending:
    """A guard returned False."""
    if guard == "start_or_retry":
        return retry(definition, step, None, "start_or_retry returned False")
    error = f"{guard} returned False" if guard == "start_or_fail" else None
    return Ending(verb=_VERB_OF_GUARD[guard], reason=guard, error=error)


def retry(
    definition: JobDefinition[..., Any], step: RunningStep, error: BaseException | None, message: str = ""
) -> Ending:
    """Run again after the delay that the error asks for, or the backoff; fail if no retry is left."""
    text, stack = (message, None) if error is None else (describe(error), stack_of(error))
    if step.retries >= step.max_retries:
        return Ending(verb="fail", reason=reasons.MAX_RETRIES_REACHED, error=text, stack=stack, stage=step.reached)
    if isinstance(error, Retry) and (error.at is not None or error.in_ is not None):
        at, in_ = error.at, error.in_ or 0.0
    else:
        at, in_ = None, seconds_before(step.retries + 1, definition.policy.backoff, error)
    return Ending(verb="retry_later", at=at, in_=in_, error=text, stack=stack, stage=step.reached)


def not_completed(
    cooldown: float, limit: int, error: str | None = None, stage: str | None = None, *, cut: bool = False
) -> Ending:
    """The work is not finished: run again after the cooldown. `cut`: because it exceeded its time."""
    return Ending(verb="not_completed", in_=cooldown, limit=limit, error=error, stage=stage, cut=cut)


def failure(error: BaseException, reason: str, step: RunningStep, *, notify: bool = True) -> Ending:
    """Fail with the error and its stack trace."""
    return Ending(
        verb="fail", reason=reason, error=describe(error), stack=stack_of(error), stage=step.reached, notify=notify
    )
