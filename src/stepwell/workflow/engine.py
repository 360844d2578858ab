"""Everything that declared workflows add to the engine of one app, attached at its seams."""

from __future__ import annotations

from stepwell.define.registry import Registry
from stepwell.enqueue.create import Creator
from stepwell.model.ids import Uuid7Generator
from stepwell.store import Database
from stepwell.workflow.by_hand.actions import WorkflowActions
from stepwell.workflow.live.decide import Decisions
from stepwell.workflow.live.finalizer import Finalizer
from stepwell.workflow.live.gates import Gates
from stepwell.workflow.live.inputs import Inputs
from stepwell.workflow.live.rerun import rerun
from stepwell.workflow.live.start import Starter


class WorkflowEngine:
    """Starts workflows and answers gates; its hooks settle workflows, decide about steps and supply their inputs."""

    def __init__(self, database: Database, creator: Creator, jobs: Registry, uuids: Uuid7Generator) -> None:
        self._database = database
        self._uuids = uuids
        self.starter = Starter(database, creator, jobs, uuids)
        self.gates = Gates(database)
        self.actions = WorkflowActions(database)
        Finalizer(database)
        Decisions(database)
        Inputs(database)

    def rerun(self, workflow_id: str, step: str, who: str, why: str | None = None) -> str:
        """Start a copy of a workflow that runs again from this step; returns its id."""
        return rerun(self._database, self.starter, self._uuids, workflow_id, step, who, why)
