"""Earlier moments of steps and workflows, rebuilt from their history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stepwell.model.errors import StepwellError, WorkflowNotFound
from stepwell.model.ids import canonical_uuid
from stepwell.model.times import problem_of_moment
from stepwell.store import Database, Transaction
from stepwell.store.engine import past
from stepwell.store.engine.past import StepThen
from stepwell.store.missing import missing_workflow


@dataclass(frozen=True, slots=True)
class WorkflowThen:
    """A workflow and all its steps as they were at a moment.

    `state` is None before it was started, and for steps that were enqueued without a declared workflow. Steps that did
    not exist yet are left out.
    """

    id: str
    at: datetime
    state: str | None
    reason: str | None
    actor: str | None
    since: datetime | None
    steps: tuple[StepThen, ...]


def workflow_at(database: Database, workflow_id: str, when: datetime | None = None) -> WorkflowThen:
    """As it was then, or as it is now."""
    _refuse_unusable(when)
    uuid = canonical_uuid(workflow_id)

    def look(tx: Transaction) -> WorkflowThen:
        if uuid is None:
            raise WorkflowNotFound(f"no workflow has the id {workflow_id}")
        if not past.workflow_exists(tx, id=uuid):
            raise missing_workflow(tx, uuid, declared=False)
        at = database.exact_now(tx) if when is None else when
        row = past.workflow_at(tx, id=uuid, at=at)
        return WorkflowThen(
            id=uuid,
            at=at,
            state=None if row is None else row.state,
            reason=None if row is None else row.reason,
            actor=None if row is None else row.actor,
            since=None if row is None else row.since,
            steps=tuple(past.steps_at(tx, workflow=uuid, id=None, at=at)),
        )

    return database.read(look)


def step_at(database: Database, step_id: int, when: datetime) -> StepThen | None:
    """None: it did not exist yet."""
    _refuse_unusable(when)
    return next(iter(database.read(lambda tx: past.steps_at(tx, workflow=None, id=step_id, at=when))), None)


def _refuse_unusable(when: datetime | None) -> None:
    if when is not None and (problem := problem_of_moment(when)):
        raise StepwellError(f"the moment {problem}")
