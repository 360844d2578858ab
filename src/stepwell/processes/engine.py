"""Everything that main processes add to the engine of one app, attached at its seams."""

from __future__ import annotations

from stepwell.define.registry import Registry
from stepwell.enqueue.create import Creator
from stepwell.events import Events
from stepwell.processes.depend_on import DependOn
from stepwell.processes.failures import FailedQueueings
from stepwell.processes.queueing import Queueing
from stepwell.processes.reschedule import Rescheduler
from stepwell.run.finish import Finisher
from stepwell.store import Database


class ProcessEngine:
    """Queues main processes; its hooks decide when tasks that depend on others are complete."""

    def __init__(
        self, database: Database, creator: Creator, jobs: Registry, finisher: Finisher, events: Events
    ) -> None:
        self._database = database
        self._events = events
        self.failures = FailedQueueings(database)
        self.queueing = Queueing(database, creator, jobs)
        DependOn(database, creator, finisher)

    def rescheduler(self, round_seconds: float) -> Rescheduler:
        return Rescheduler(self._database, self._events, round_seconds)
