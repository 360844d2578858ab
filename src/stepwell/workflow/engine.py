"""Everything that declared workflows add to the engine of one app, attached at its seams."""

from __future__ import annotations

from stepwell.define.registry import Registry
from stepwell.enqueue.create import Creator
from stepwell.model.ids import Uuid7Generator
from stepwell.operate.actions import Actions
from stepwell.operate.operations import Operations
from stepwell.store import Database
from stepwell.workflow.by_hand.actions import WorkflowActions
from stepwell.workflow.by_hand.kinds import kinds_of_workflows
from stepwell.workflow.by_hand.manual import refuse_bad_result, refuse_unskippable, skipped_by_input
from stepwell.workflow.live.decide import Decisions
from stepwell.workflow.live.finalizer import Finalizer
from stepwell.workflow.live.gates import Gates, refuse_closed_gate
from stepwell.workflow.live.inputs import Inputs
from stepwell.workflow.live.rerun import rerun
from stepwell.workflow.live.start import Starter


class WorkflowEngine:
    """Starts workflows and answers gates; its hooks settle workflows, decide about steps and supply their inputs."""

    def __init__(
        self,
        database: Database,
        creator: Creator,
        jobs: Registry,
        uuids: Uuid7Generator,
        by_hand: Actions,
        operations: Operations,
    ) -> None:
        self._database = database
        self._uuids = uuids
        self.starter = Starter(database, creator, jobs, uuids)
        self.gates = Gates(database)
        self.actions = WorkflowActions(database)
        by_hand.steps.before_skip.append(refuse_unskippable)
        by_hand.steps.before_completion += [refuse_closed_gate, refuse_bad_result]
        by_hand.steps.skipped_by_input.append(skipped_by_input)
        for kind in kinds_of_workflows():
            operations.kinds.add(kind)
        Finalizer(database)
        Decisions(database)
        Inputs(database)

    def rerun(self, workflow_id: str, step: str, who: str, why: str | None = None) -> str:
        """Start a copy of a workflow that runs again from this step; returns its id."""
        return rerun(self._database, self.starter, self._uuids, workflow_id, step, who, why)
