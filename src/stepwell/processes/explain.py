"""What tasks of main processes wait for beside other steps: the reschedule beat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepwell.look.explain.facts import Facts
from stepwell.look.explain.found import Found, cause
from stepwell.look.explain.running import silence
from stepwell.look.explain.text import moment
from stepwell.model.features import PROCESS
from stepwell.model.states import State
from stepwell.store.engine import processes
from stepwell.store.engine.explaining import StepFacts
from stepwell.store.engine.processes import ExplainedTask

_ADVICE: Final = ("stepwell heartbeat reschedule", "stepwell up")


def rescheduling(facts: Facts, step: StepFacts) -> Iterator[Found]:
    """A task that only the reschedule beat makes new, and why its main process was not queued again."""
    if step.belongs_to != PROCESS:
        return
    task = processes.task_of_step(facts.tx, step_id=step.id)
    failure = _failure(task)
    if step.status == "held":
        yield cause(
            "reschedule", f"{_why_held(facts, task)}: it waits for the reschedule beat{failure}", advice=_ADVICE
        )
    elif step.state is State.RUNNING and not step.waits_for_children and (trouble := silence(facts, step)) is not None:
        dead = "is dead until" if trouble[1] is None else "is then dead, until"
        yield cause("reschedule", f"its task {dead} the reschedule beat makes it new{failure}", advice=_ADVICE)
    elif failure:
        yield cause("queueing", failure.removeprefix(", and "))


def _why_held(facts: Facts, task: ExplainedTask | None) -> str:
    unmet = [] if task is None else processes.unmet_dependencies(facts.tx, ids=[task.id])
    if not unmet:
        return "its last run ended without completing it"
    after = ", ".join(f"{each.task_class} (step {each.step_id}, {each.state})" for each in unmet[:5])
    return f"not completed: a full run of it has to begin after the completion of {after}"


def _failure(task: ExplainedTask | None) -> str:
    if task is None or task.at is None:
        return ""
    return f", and the queueing of main process {task.main_process} failed at {moment(task.at)}: {task.message}"
