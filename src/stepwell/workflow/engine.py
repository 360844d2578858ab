"""Everything that declared workflows add to the engine of one app, attached at its seams."""

from __future__ import annotations

from stepwell.define.registry import Registry
from stepwell.enqueue.create import Creator
from stepwell.model.ids import Uuid7Generator
from stepwell.store import Database
from stepwell.workflow.decide import Decisions
from stepwell.workflow.finalizer import Finalizer
from stepwell.workflow.gates import Gates
from stepwell.workflow.inputs import Inputs
from stepwell.workflow.start import Starter


class WorkflowEngine:
    """Starts workflows and answers gates; its hooks settle workflows, decide about steps and supply their inputs."""

    def __init__(self, database: Database, creator: Creator, jobs: Registry, uuids: Uuid7Generator) -> None:
        self.starter = Starter(database, creator, jobs, uuids)
        self.gates = Gates(database)
        Finalizer(database)
        Decisions(database)
        Inputs(database)
