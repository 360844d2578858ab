"""What belongs to one app and one database. What not every program needs is loaded, with its code, on first use.

A program that only enqueues, or a slot that only runs jobs, loads neither the scheduler nor the code of workflows. A
transaction that meets a step of a feature loads it, whatever the program is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stepwell.enqueue.create import Creator
from stepwell.model.clock import Clock, SystemClock
from stepwell.model.features import PROCESS, SCHEDULE, WORKFLOW
from stepwell.model.ids import Uuid7Generator
from stepwell.model.once import once
from stepwell.operate.breaker import Breaker
from stepwell.run.current import RunningSteps
from stepwell.run.finish import Finisher
from stepwell.share.limits import Limits
from stepwell.store import Database, open_database

if TYPE_CHECKING:
    from stepwell.app import Stepwell
    from stepwell.look.figures import Figures
    from stepwell.look.lists import Lists
    from stepwell.look.reader import Reader
    from stepwell.operate.actions import Actions
    from stepwell.operate.operations import Operations
    from stepwell.operate.retention import Retention
    from stepwell.processes.engine import ProcessEngine
    from stepwell.run.build import WorkerBuilder
    from stepwell.schedule.engine import ScheduleEngine
    from stepwell.workflow.engine import WorkflowEngine


class Attached:
    def __init__(self, app: Stepwell, url: str, clock: Clock, prepare: Callable[[Database], None]) -> None:
        self._app = app
        self._uuids = Uuid7Generator()
        self.database = database = open_database(url, clock, prepare)
        self.breaker = Breaker(database)
        self.limits = Limits(database)
        self.running_steps = RunningSteps(database, app.jobs, self._uuids)
        self.creator = Creator(database, app.queues, self._uuids)
        self.finisher = Finisher(database, self.creator, app.events)
        app.events.waits = not isinstance(clock, SystemClock)  # a test: events arrive before the next statement
        app.events.follow(database.hooks)
        database.hooks.load_on_use(WORKFLOW, lambda: self.workflow_engine)
        database.hooks.load_on_use(PROCESS, lambda: self.process_engine)
        database.hooks.load_on_use(SCHEDULE, lambda: self.schedule_engine)

    # look -------------------------------------------------------------------------------------------------

    @once
    def reader(self) -> Reader:
        from stepwell.look.reader import Reader

        return Reader(self.database)

    @once
    def figures(self) -> Figures:
        from stepwell.look.figures import Figures

        return Figures(self.database)

    @once
    def lists(self) -> Lists:
        from stepwell.look.lists import Lists

        return Lists(self.database)

    # operate ----------------------------------------------------------------------------------------------

    @once
    def actions(self) -> Actions:
        from stepwell.operate.actions import Actions
        from stepwell.workflow.by_hand import add_checks

        actions = Actions(self.database, self.creator)
        add_checks(actions.steps)
        return actions

    @once
    def operations(self) -> Operations:
        from stepwell.operate.operations import Operations
        from stepwell.workflow.by_hand.kinds import kinds_of_workflows

        operations = Operations(self.database, self.actions.steps)
        for kind in kinds_of_workflows():
            operations.kinds.add(kind)
        return operations

    @once
    def retention(self) -> Retention:
        from stepwell.operate.retention import Retention

        return Retention(self.database, self._app.retention_options)

    # run and features -------------------------------------------------------------------------------------

    @once
    def workers(self) -> WorkerBuilder:
        from stepwell.run.build import WorkerBuilder

        app = self._app
        return WorkerBuilder(self.database, app.jobs, self.finisher, app.limits, app.queues, app.import_name)

    @once
    def workflow_engine(self) -> WorkflowEngine:
        from stepwell.workflow.engine import WorkflowEngine

        return WorkflowEngine(self.database, self.creator, self._app.jobs, self._uuids)

    @once
    def process_engine(self) -> ProcessEngine:
        from stepwell.processes.engine import ProcessEngine

        return ProcessEngine(self.database, self.creator, self._app.jobs, self.finisher, self._app.events)

    @once
    def schedule_engine(self) -> ScheduleEngine:
        from stepwell.schedule.engine import ScheduleEngine

        app = self._app
        return ScheduleEngine(
            self.database, self.creator, app.jobs, app.workflows, self.workflow_engine.starter, self._uuids,
            lambda: app.scheduler_options,
        )  # fmt: skip
