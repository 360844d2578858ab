"""What the overviews return: counts, workers, jobs."""

from __future__ import annotations

import msgspec

from stepwell.look.figure_types import GroupFigures
from stepwell.store.engine.actions import RecordedAction
from stepwell.store.engine.reading import KnownWorker, LiveWorker


class Stats(msgspec.Struct, frozen=True):
    """How many steps there are, by state, by status on the agenda and by group; and the live workers.

    The nine states are disjoint; the next three are parts of Pending, Running and Pending.
    """

    states: dict[str, int]
    child_pending: int
    child_running: int
    throttled: int
    agenda: dict[str, int]
    groups: list[GroupFigures]
    workers: list[LiveWorker]


class WorkerInfo(KnownWorker, frozen=True):
    """A worker, and what it serves: no groups means all."""

    queues: list[str]
    actions: list[str]
    groups: list[str]


class JobInfo(RecordedAction, frozen=True, kw_only=True):
    """A job as workers recorded it, its former names, and how many live workers serve it."""

    aliases: list[str]
    workers: int
