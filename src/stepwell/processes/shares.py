"""Promised and delivered shares: how the slots divide among the classes of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from stepwell.processes.config import ProcessConfig
from stepwell.processes.main_process import TaskFactory
from stepwell.processes.queueing import QUEUE
from stepwell.share.division import Bounds, claimants_of, fill
from stepwell.store import Database, Transaction
from stepwell.store.engine import limits, processes, ticks


def weights_of(config: ProcessConfig, factory: TaskFactory) -> dict[str, float]:
    """The priorities by action, as strategies take them. A job that runs several classes has the sum of theirs."""
    weights: dict[str, float] = {}
    for name, task in config.tasks.items():
        if task.priority is None:
            continue
        action = name
        with suppress(Exception):  # a class that no main process uses may have no job; a queueing reports all others
            action = factory.create(name).action
        weights[action] = weights.get(action, 0) + task.priority
    return weights


@dataclass(frozen=True, slots=True)
class Share:
    """One class. `promised` is its share of the slots by its priority, among the classes that ran; None without one.

    `delivered` is its part of the time that the runs took: of the slots. The two are comparable for a time in which
    every class had tasks waiting, and for the strategy DivideTotalValueEqually.
    """

    task_class: str
    priority: float | None
    runs: int
    promised: float | None
    delivered: float


def shares_of(database: Database, runs: int) -> list[Share]:
    """The shares among the latest `runs` runs."""
    now = database.now()

    def look(tx: Transaction) -> list[processes.RunsOfClass]:
        ticks.keep_to_indexes(tx)
        return processes.recent_runs(tx, limit=runs, now=now)

    found = database.read(look)
    maxima = {row.name: row.maximum for row in database.read(limits.limits) if row.kind == "queue"}
    promised = _promised({row.task_class: row.priority for row in found if row.priority}, maxima.get(QUEUE))
    seconds, total = sum(row.seconds for row in found), sum(row.runs for row in found)
    return [
        Share(
            task_class=row.task_class,
            priority=row.priority,
            runs=row.runs,
            promised=promised.get(row.task_class),
            delivered=row.seconds / seconds if seconds > 0 else row.runs / total,
        )
        for row in found
    ]


def _promised(priorities: Mapping[str, float], slots: int | None) -> dict[str, float]:
    """The parts of the slots: in proportion, and at least one slot for each class while there are enough."""
    claimants = claimants_of(dict.fromkeys(priorities, 1), priorities, {})
    total = slots or len(claimants)
    least = int(slots is not None and slots >= len(claimants))
    shares = fill([Bounds(each.action, each.weight, least, total) for each in claimants], total)
    return {task_class: float(share / total) for task_class, share in shares.items()}
