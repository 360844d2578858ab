"""Times and states in the words of an explanation."""

from __future__ import annotations

from datetime import datetime

from stepwell.model.reasons import (
    CHILDREN_FAILED,
    CONDITION_NOT_MET,
    INPUT_SKIPPED,
    MAX_RETRIES_REACHED,
    NOT_COMPLETED,
    REFUSED,
)
from stepwell.model.states import FAILED, State
from stepwell.store.engine.explaining import StepFacts


def moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def exact(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S.%f} UTC"


def state_text(step: StepFacts) -> str:
    """The situation of a step that waits for nothing."""
    match step.state:
        case State.PENDING if step.reason == NOT_COMPLETED:
            return f"ready ({not_completed_text(step)}): the next tick of its group dispatches it"
        case State.PENDING:
            return "ready: the next tick of its group dispatches it"
        case State.DISPATCHED:
            return f"dispatched to queue {step.queue!r}; the next free worker claims it"
        case State.RUNNING:
            return f"running on {step.hostname} (worker {step.lease_worker}, attempt {step.attempts})"
    cause = f" ({step.reason})" if step.reason else ""
    error = _error(step)
    return f"ended {step.state}{cause}: {error}" if error else f"ended {step.state}{cause}"


def _error(step: StepFacts) -> str | None:
    """The error that ended it, not one of an earlier attempt; or what decided that it is skipped."""
    if step.state is State.SKIPPED and step.reason in (CONDITION_NOT_MET, INPUT_SKIPPED):
        return step.error_message
    if step.state not in FAILED and step.state is not State.COMPLETED:
        return None
    if step.reason in (CHILDREN_FAILED, REFUSED):
        return step.error_message
    return step.last_error or (step.error_message if step.reason in (MAX_RETRIES_REACHED, NOT_COMPLETED) else None)


def not_completed_text(step: StepFacts) -> str:
    times = "" if step.not_completed < 2 else f" ({step.not_completed} runs in a row)"
    return f"its last run did not complete{times}"
