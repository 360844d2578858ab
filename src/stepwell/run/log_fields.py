"""The step of a log record, and the lines that the engine itself writes about a run."""

from __future__ import annotations

import logging
from typing import Any, Final

from stepwell.model.claimed import ClaimedStep
from stepwell.model.states import State
from stepwell.run.current import RunningSteps, running_step
from stepwell.run.ending import Ended
from stepwell.run.facts import StepFacts

_LOGGER: Final = logging.getLogger("stepwell.worker")


class StepLogFilter(logging.Filter):
    """Adds `step_id`, `workflow_id`, `action` and `attempt` of the running step to log records; it drops none.

    The commands do that for their own log. In a program of yours, add it to a handler, whose format can then use them:

    >>> handler = logging.StreamHandler()
    >>> handler.addFilter(StepLogFilter())
    >>> handler.setFormatter(logging.Formatter("%(asctime)s %(step_id)s/%(attempt)s %(message)s"))

    Outside of a run the fields are None. A thread that a job starts has no context of its own: with the `runs` of an
    app, its records belong to the only run in this process, if there is only one.
    """

    def __init__(self, runs: RunningSteps | None = None) -> None:
        super().__init__()
        self.runs = runs

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "step_id"):
            step = running_step() or (None if self.runs is None else self.runs.only())
            record.__dict__.update(_NO_STEP if step is None else _fields(step))
        return True


_NO_STEP: Final = {"step_id": None, "workflow_id": None, "action": None, "attempt": None}


def _fields(step: ClaimedStep | StepFacts) -> dict[str, Any]:
    return {
        "step_id": step.id,
        "workflow_id": step.workflow_id,
        "action": step.action,
        "attempt": step.attempts,
    }


def log_beginning(step: StepFacts) -> None:
    """The code of a step begins to run."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info("step %d (%s) attempt %d began", step.id, step.action, step.attempts, extra=_fields(step))


def log_ending(ended: Ended, state: State | None, failure_level: int = logging.ERROR) -> None:
    """The end of a run is committed; without a state it was stale, and nothing changed."""
    claim, ending = ended
    level = failure_level if state is State.FAILED and ending.notify else logging.INFO
    if not _LOGGER.isEnabledFor(level):
        return
    step = claim.step
    what = "lost its lease, so its result was ignored" if state is None else f"ended: {state}"
    took = f" after {ending.duration:.3f} s" if ending.duration else ""
    why = ending.error or ending.reason
    _LOGGER.log(
        level,
        "step %d (%s) attempt %d %s%s%s",
        claim.step_id,
        step.action,
        step.attempts,
        what,
        took,
        f": {why}" if why else "",
        extra=_fields(step) | {"state": None if state is None else str(state), "duration": ending.duration},
    )
