"""Promised and delivered shares: how slots and the latest runs of tasks divide among the classes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from stepwell.processes.config import ProcessConfig
from stepwell.processes.main_process import TaskFactory
from stepwell.store import Database
from stepwell.store.engine import processes

# History rows that are read for each run asked for: a run writes at most four, and other work writes there as well.
_SCANNED_PER_RUN: Final = 50


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
    """One class. `promised` is its part of the priorities of all classes that ran; None without a priority.

    The two are comparable for a time in which every class had tasks waiting.
    """

    task_class: str
    priority: float | None
    runs: int
    promised: float | None
    delivered: float


def shares_of(database: Database, runs: int) -> list[Share]:
    """The shares among the latest `runs` runs."""
    found = database.read(lambda tx: processes.recent_runs(tx, scanned=_SCANNED_PER_RUN * runs, limit=runs))
    total = sum(row.runs for row in found)
    priorities = sum(row.priority or 0.0 for row in found)
    return [
        Share(
            task_class=row.task_class,
            priority=row.priority,
            runs=row.runs,
            promised=None if row.priority is None else row.priority / priorities,
            delivered=row.runs / total,
        )
        for row in found
    ]
