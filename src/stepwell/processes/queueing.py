"""Queueing a main process: all its tasks, or none, in one transaction.

| a task is | then |
|---|---|
| new | it stays, and keeps its place in line |
| completed, in error | a new step succeeds the old one |
| running | without `depend_on`, the queueing fails; with it, the task is passed over: it will run again anyway |
| dead, not_completed | the queueing fails: the task has to be rescheduled first |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from msgspec import structs

from stepwell.define.definition import JobDefinition
from stepwell.define.drafts import NewStep, non_default_settings
from stepwell.define.registry import Registry
from stepwell.enqueue.create import Creator
from stepwell.model.features import PROCESS
from stepwell.processes.config.items import TaskConfig, TaskEntry
from stepwell.processes.errors import QueueingError, TaskStateError
from stepwell.processes.main_process import MainProcess
from stepwell.store import Database, Transaction
from stepwell.store.engine import processes
from stepwell.store.engine.processes import QueuedTask

QUEUE: Final = "main-processes"  # of all tasks: its limit is `max_execution_slots`

Key: TypeAlias = tuple[str, str, str]  # class, entity, part

_ENDED: Final = ("completed", "error")
# What a draft of a task factory cannot have: a task is one step for each part, and stands alone.
_PLACES: Final = (
    "uuid", "parent", "block", "child_block", "index", "type", "depends_on", "trigger_rule", "workflow", "key",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a main process: one part of the entities."""

    config: TaskConfig
    entry: TaskEntry
    part: str
    draft: NewStep

    @property
    def key(self) -> Key:
        return self.config.task_class, self.config.entity_uid, self.part


@dataclass(frozen=True, slots=True)
class Queued:
    """What a queueing did, by the ids of steps."""

    new: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    passed_over: list[int] = field(default_factory=list)


class Queueing:
    """Queues main processes into one database. Any number of processes may do so at once."""

    def __init__(self, database: Database, creator: Creator, jobs: Registry) -> None:
        self._database = database
        self._creator = creator
        self._jobs = jobs

    def queue(self, process: MainProcess) -> Queued:
        """Queue all tasks; raises `TaskStateError` if the state of one of them does not allow it."""
        tasks = list(self._tasks(process))
        return self._database.transact(lambda tx: self._queue(tx, process, tasks))

    def _tasks(self, process: MainProcess) -> Iterator[Task]:
        for entry in process.process.tasks:
            config = process.config.tasks[entry.task_class]
            made = process.task_factory.create(entry.task_class)
            parts = config.partitions()
            for part in parts:
                yield Task(
                    config=config,
                    entry=entry,
                    part=f"{part.number}/{len(parts)}",
                    draft=self._draft(process, config, made, f"{part.number}/{len(parts)}"),
                )

    def _draft(self, process: MainProcess, config: TaskConfig, made: object, part: str) -> NewStep:
        if not isinstance(made, JobDefinition | NewStep):
            raise QueueingError(
                f"the task factory returned {made!r} for {config.task_class!r}: return a job, or a draft of one"
            )
        given = {} if isinstance(made, JobDefinition) else non_default_settings(made)
        if placed := [name for name in _PLACES if name in given]:
            raise QueueingError(
                f"the task factory returned a draft of {made.action!r} with {', '.join(placed)}: "
                "a task stands alone, without parent, order or key; remove them"
            )
        settings = given | {
            "queue": QUEUE,
            "label": config.task_class,
            "timeout": config.timeout,
            "cooldown": config.cooldown,
            "max_retries": process.config.max_error_tries - 1,
            "relatable": (config.entity_uid, part) if config.entity_uid else None,
        }
        arguments = {} if isinstance(made, JobDefinition) else made.arguments
        return structs.replace(self._jobs.draft(made.action, arguments, settings), belongs_to=PROCESS)

    def _queue(self, tx: Transaction, process: MainProcess, tasks: list[Task]) -> Queued:
        now = self._database.now()
        classes = sorted({task.config.task_class for task in tasks})
        rows = self._locked(tx, process, tasks, classes, now)
        _refuse_states(process, tasks, rows)
        self._depend(tx, tasks, rows, classes)
        for key in rows.keys() - {task.key for task in tasks}:
            processes.delete_task(tx, id=rows[key].id)  # of an earlier configuration, and it has ended
        to_create = [task for task in tasks if rows[task.key].state in _ENDED]
        refs = self._creator.create_in(tx, [task.draft for task in to_create], now) if to_create else []
        for task, ref in zip(to_create, refs, strict=True):
            processes.make_task_new(
                tx,
                id=rows[task.key].id,
                main_process=process.key,
                step_id=ref.id,
                weight=task.config.priority,
                max_not_completed=process.config.max_not_completed,
                max_rescues=process.config.max_rescues,
                now=now,
            )
        processes.resolve_failed_queueings(tx, main_process=process.key, now=now)
        return Queued(
            new=[ref.id for ref in refs],
            kept=[row.step_id for row in rows.values() if row.state == "new" and row.step_id is not None],
            passed_over=[row.step_id for row in rows.values() if row.state == "running" and row.step_id is not None],
        )

    def _locked(
        self, tx: Transaction, process: MainProcess, tasks: list[Task], classes: list[str], now: datetime
    ) -> dict[Key, QueuedTask]:
        """All tasks of these classes, locked; those that do not exist are added."""
        known = _by_key(processes.tasks_of_classes(tx, classes=classes, now=now))
        for task_class, entity, part in sorted({task.key for task in tasks} - known.keys()):
            processes.add_task(tx, task_class=task_class, entity=entity, part=part, main_process=process.key, now=now)
        processes.lock_tasks_of_classes(tx, classes=classes)
        return _by_key(processes.tasks_of_classes(tx, classes=classes, now=self._database.now()))

    def _depend(self, tx: Transaction, tasks: list[Task], rows: dict[Key, QueuedTask], classes: list[str]) -> None:
        """A task that becomes new depends on what this main process says; any other one on that as well."""
        recorded = {(each.task_id, each.depends_on) for each in processes.dependencies_of_classes(tx, classes=classes)}
        wanted = {(rows[task.key].id, dependee) for task in tasks for dependee in task.entry.depend_on}
        unfinished = {row.id for row in rows.values() if row.state not in _ENDED}
        for task_id, dependee in sorted(wanted - recorded):
            processes.add_dependency(tx, task_id=task_id, depends_on=dependee)
        for task_id, dependee in sorted(recorded - wanted):
            if task_id not in unfinished:
                processes.delete_dependency(tx, task_id=task_id, depends_on=dependee)


def _by_key(rows: list[QueuedTask]) -> dict[Key, QueuedTask]:
    return {(row.task_class, row.entity, row.part): row for row in rows}


def _refuse_states(process: MainProcess, tasks: list[Task], rows: dict[Key, QueuedTask]) -> None:
    """Raise one error that names every task that stands in the way."""
    wanted = {task.key: task for task in tasks}
    found = [(row, reason) for key, row in rows.items() if (reason := _reason(row, wanted.get(key))) is not None]
    if not found:
        return
    first = found[0][0]
    message = "; ".join(f"{_named(row)} is {row.state}: {reason}" for row, reason in found)
    raise TaskStateError(
        f"main process {process.name!r} is not queued: {message}",
        task_class=first.task_class,
        part=first.part,
        state=first.state,
        step_id=first.step_id,
    )


def _reason(row: QueuedTask, task: Task | None) -> str | None:
    """Why the state of a task does not allow the queueing; None if it does."""
    if task is None:
        return None if row.state in _ENDED else "its class was split differently before; wait until that part has ended"
    if row.state in ("dead", "not_completed"):
        return "it has to be rescheduled first (`stepwell heartbeat reschedule`, or `stepwell up`)"
    if row.state == "running" and not task.entry.depend_on:
        return "wait until it has ended"
    return None


def _named(row: QueuedTask) -> str:
    part = "" if row.part == "1/1" else f", part {row.part}"
    return f"task {row.task_class!r}{part} (step {row.step_id})"
