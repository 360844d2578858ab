"""The events about declared workflows: one class for each state that a workflow can change to, and one for settling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from stepwell.events.event import Event
from stepwell.model.workflow_states import WorkflowState
from stepwell.store import WorkflowChange
from stepwell.store.engine.workflows import Execution


@dataclass(frozen=True, slots=True)
class WorkflowChanged(Event):
    """The state of a declared workflow changed, whatever changed it; each subclass is for one new state.

    `workflow` is the name of its template, `from_state` is None for its start.
    """

    name: ClassVar[str] = "workflow.changed"
    workflow_id: str
    namespace: str
    workflow: str
    version: str
    from_state: str | None
    to_state: str
    reason: str | None
    actor: str | None
    at: datetime


class WorkflowStarted(WorkflowChanged):
    """A workflow was started. One with nothing to run publishes `WorkflowCompleted` instead."""

    __slots__ = ()
    name = "workflow.started"


class WorkflowPending(WorkflowChanged):
    """A settled workflow was reopened by a retry, and none of its steps has left Pending."""

    __slots__ = ()
    name = "workflow.pending"


class WorkflowInProgress(WorkflowChanged):
    """The first step of a workflow left Pending, its first gate opened, or a retry reopened it."""

    __slots__ = ()
    name = "workflow.in_progress"


class WorkflowCompleted(WorkflowChanged):
    """Every step of a workflow concluded."""

    __slots__ = ()
    name = "workflow.completed"


class WorkflowFailed(WorkflowChanged):
    """A workflow settled in the state `error`: a step failed or was stopped."""

    __slots__ = ()
    name = "workflow.failed"


class WorkflowCancelled(WorkflowChanged):
    """A workflow was cancelled, or settled with cancelled steps and none that failed."""

    __slots__ = ()
    name = "workflow.cancelled"


class WorkflowResolved(WorkflowChanged):
    """An operator resolved a workflow that had failed or was cancelled."""

    __slots__ = ()
    name = "workflow.resolved_manually"


_OF_STATE: Final[dict[str, type[WorkflowChanged]]] = {
    WorkflowState.PENDING: WorkflowPending,
    WorkflowState.IN_PROGRESS: WorkflowInProgress,
    WorkflowState.COMPLETE: WorkflowCompleted,
    WorkflowState.ERROR: WorkflowFailed,
    WorkflowState.CANCELLED: WorkflowCancelled,
    WorkflowState.RESOLVED_MANUALLY: WorkflowResolved,
}


@dataclass(frozen=True, slots=True)
class TaskFinalizationStarted(Event):
    """A workflow settled: nothing in it can run any more. Published before the event of its new state.

    `context` has its steps in numbers, as they were then.
    """

    name: ClassVar[str] = "workflow.task_finalization_started"
    workflow_id: str
    context: Execution


def events_of_workflow(change: WorkflowChange) -> Iterator[WorkflowChanged | TaskFinalizationStarted]:
    """The events for a change of a workflow: if it settled, first that it does."""
    if change.execution is not None:
        yield TaskFinalizationStarted(change.workflow_id, change.execution)
    is_new = change.from_state is None and change.to_state == WorkflowState.PENDING
    kind = WorkflowStarted if is_new else _OF_STATE[change.to_state]
    yield kind(
        change.workflow_id,
        change.namespace,
        change.name,
        change.version,
        change.from_state,
        change.to_state,
        change.reason,
        change.actor,
        change.at,
    )
