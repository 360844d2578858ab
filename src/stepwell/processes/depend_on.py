"""dependOn: a task is complete only if a full run of it began after its dependees had completed.

It does not delay the start of a task: it makes it run again. This is decided in the transaction that ends a run, before
the end is written, and again in every transaction that completes a task or a dependee in another way (a tick completes
a parent, an operator a step by hand): then a new step succeeds the completed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from stepwell.define.drafts import ResolvedStep
from stepwell.enqueue.create import Creator
from stepwell.model.actors import is_operator
from stepwell.model.errors import ActionRefused
from stepwell.model.features import PROCESS
from stepwell.model.states import CONCLUDED
from stepwell.run.ending import Ended, Ending
from stepwell.run.finish import Finisher
from stepwell.store import Database, Touched, Transaction
from stepwell.store.engine import processes
from stepwell.store.engine.processes import CompletedTask, TaskOfStep

UNLIMITED: Final = 2**31 - 1


class DependOn:
    """Attached to the ends of runs, and to the commits that change tasks."""

    def __init__(self, database: Database, creator: Creator, finisher: Finisher) -> None:
        self._database = database
        self._creator = creator
        finisher.on_ending(PROCESS, self.decide_endings)
        database.hooks.before_commit(PROCESS, self.decide_touched)

    def decide_endings(self, tx: Transaction, endings: Sequence[Ended]) -> list[Ended]:
        """The endings of runs of tasks: those that must run again, and those that no general limit fails."""
        # Locked before the first look: a queueing that adds a dependency has committed, or will see this end.
        if completing := [claim.step_id for claim, ending in endings if _completes(ending)]:
            processes.lock_with_dependencies(tx, step_ids=completing)
        rows = {row.step_id: row for row in processes.tasks_of_steps(tx, ids=[claim.step_id for claim, _ in endings])}
        candidates = [
            row.task_id
            for step_id in completing
            if (row := rows.get(step_id)) is not None
            and row.task_id is not None
            and row.has_dependencies
            and not row.has_children  # the end of its children completes it
        ]
        unmet = processes.unmet_dependencies(tx, ids=candidates) if candidates else []
        must_run_again = {each.task_id for each in unmet}
        return [
            (claim, _decided(rows.get(claim.step_id), ending, claim.step.cooldown, must_run_again))
            for claim, ending in endings
        ]

    def decide_touched(self, tx: Transaction, touched: Touched) -> None:
        """Let completed tasks run again that completed too early, or whose dependee has completed after them."""
        steps = sorted(which for which in touched if isinstance(which, int))
        by_operator = {step for step in steps if is_operator(touched[step])}
        deciding = [
            row.step_id
            for row in processes.tasks_of_steps(tx, ids=steps)
            if (row.state in CONCLUDED and (row.has_dependencies or row.has_dependents))
            or (row.step_id in by_operator and not row.state.is_terminal)
        ]
        if not deciding:
            return
        processes.lock_with_dependencies(tx, step_ids=deciding)
        rows = processes.tasks_of_steps(tx, ids=deciding)
        for row in rows:
            if row.task_id is None and not row.state.is_terminal and row.step_id in by_operator:
                raise ActionRefused(
                    f"step {row.step_id} is no longer the current one of its task: a later queueing has created "
                    "another (`stepwell processes` lists them); nothing changed"
                )
        done = [row for row in rows if row.state in CONCLUDED and row.task_id is not None]
        own = {row.task_id for row in done if row.has_dependencies and row.task_id is not None}
        dependees = [row.task_id for row in done if row.has_dependents and row.task_id is not None]
        candidates = own.union(processes.dependents_of(tx, ids=dependees) if dependees else ())
        if not candidates:
            return
        unmet = {each.task_id for each in processes.unmet_dependencies(tx, ids=sorted(candidates))}
        for task in processes.completed_tasks(tx, ids=sorted(unmet)) if unmet else ():
            self._run_again(tx, task)

    def _run_again(self, tx: Transaction, task: CompletedTask) -> None:
        """A new step succeeds the completed one: not_completed, as if its run had ended so."""
        relatable = (task.relatable_type, task.relatable_id or "") if task.relatable_type is not None else None
        draft = ResolvedStep(
            action=task.action,
            arguments=task.arguments,
            label=task.label,
            queue=task.queue,
            priority=task.priority,
            max_retries=task.max_retries,
            timeout=task.timeout,
            cooldown=task.cooldown,
            delay=task.cooldown,
            relatable=relatable,
            concurrency_key=task.concurrency_key,
            concurrency_limit=task.concurrency_limit,
            belongs_to=PROCESS,
        )
        (ref,) = self._creator.create_in(tx, [draft], self._database.now())
        processes.mark_not_completed(tx, id=ref.id)
        processes.hold_on_agenda(tx, id=ref.id)
        processes.succeed(tx, task_id=task.task_id, step_id=ref.id)


def _completes(ending: Ending) -> bool:
    """Whether a run that ends so completes its step. With children, the end of these does."""
    return ending.verb in ("finish", "skip") and not ending.children


def _decided(row: TaskOfStep | None, ending: Ending, cooldown: float, must_run_again: set[int]) -> Ending:
    if row is None or row.task_id is None:
        return ending
    if row.task_id in must_run_again:
        return Ending(verb="run_again", in_=cooldown, duration=ending.duration)
    if ending.verb == "not_completed":
        return structs.replace(ending, limit=UNLIMITED if row.max_not_completed is None else row.max_not_completed)
    if ending.verb == "rescue":
        return structs.replace(ending, limit=UNLIMITED if row.max_rescues is None else row.max_rescues)
    return ending
