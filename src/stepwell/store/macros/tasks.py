"""The state of a task of a main process, and when a lease is dead."""

from __future__ import annotations

from typing import Final

from stepwell.model.reasons import NOT_COMPLETED
from stepwell.model.task_states import TASK_STATES
from stepwell.store.macros.macro import Macros, split


def _lease_is_dead(arguments: str) -> str:
    """Whether the lease of a step has ended, by `step, worker, time`; the worker is NULL if it has no row any more."""
    step, worker, now = split(arguments)
    return f"({worker}.id IS NULL OR {worker}.alive_until <= {now} OR {step}.lease_deadline <= {now})"


def _task_state(arguments: str) -> str:
    """The state of a task of a main process, by its `step, worker, time`: `TASK_STATES` in SQL.

    What was ended from outside while it ran is running until its process has ended: another run must not begin.
    A task whose step is no longer there is completed.
    """
    step = split(arguments)[0]
    dead = _lease_is_dead(arguments)
    by_state = "\n".join(
        f"     WHEN {step}.state = '{state}' THEN '{task_state}'" for state, task_state in TASK_STATES.items()
    )
    return (
        f"CASE WHEN {step}.state = 'Running' AND {step}.lease_worker IS NOT NULL AND {dead} THEN 'dead'\n"
        f"     WHEN {step}.lease_worker IS NOT NULL AND NOT {dead} THEN 'running'\n"
        f"     WHEN {step}.state = 'Pending' AND {step}.reason = '{NOT_COMPLETED}' THEN 'not_completed'\n"
        f"{by_state}\n     ELSE 'completed' END"
    )


MACROS: Final[Macros] = {"lease_is_dead": _lease_is_dead, "task_state": _task_state}
