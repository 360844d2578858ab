"""Everything that schedules add to the engine of one app, attached at its seams."""

from __future__ import annotations

from collections.abc import Callable

from stepwell.define.registry import Registry
from stepwell.enqueue.create import Creator
from stepwell.model.ids import Uuid7Generator
from stepwell.schedule import status
from stepwell.schedule.checks import problems
from stepwell.schedule.deciding import Decider
from stepwell.schedule.definition import Definition
from stepwell.schedule.editing import Editor
from stepwell.schedule.executing import Executions
from stepwell.schedule.options import Options
from stepwell.schedule.targets import Targets
from stepwell.store import Database, Transaction
from stepwell.workflow.live.start import Starter
from stepwell.workflow.workflows import Workflows


class ScheduleEngine:
    """Decides slots, creates executions and writes definitions; its hook keeps the status of executions."""

    def __init__(
        self,
        database: Database,
        creator: Creator,
        jobs: Registry,
        workflows: Workflows,
        starter: Starter,
        uuids: Uuid7Generator,
        options: Callable[[], Options],
    ) -> None:
        self.options = options
        self.targets = Targets(jobs, workflows)
        self.executions = Executions(self.targets, creator, starter, uuids)
        self.decider = Decider(self.executions, lambda: options().grace)
        self.editor = Editor(self.decider, self.executions)
        status.follow(database)

    def problems(self, tx: Transaction, definition: Definition, seed: str) -> list[str]:
        """Everything that is wrong with a definition."""
        return problems(self.targets, tx, definition, seed, self.options().min_interval)
