"""The rows of `steps` and of their history as Python objects. Frozen, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from stepwell.model.features import BelongsTo
from stepwell.model.states import State

# A value that is stored as JSON text.
Json: TypeAlias = Annotated[Any, "json"]

StepType: TypeAlias = Literal["default", "resolve-exception"]
StepKind: TypeAlias = Literal["job", "map", "gate"]
Priority: TypeAlias = Literal["default", "high"]
TriggerRule: TypeAlias = Literal["all_concluded", "all_ended", "any_concluded"]


@dataclass(frozen=True, slots=True, eq=False)
class StepRef:
    """The identity of a step. Two are equal if they are of the same step, whatever else they can do."""

    id: int
    uuid: str

    def __eq__(self, other: object) -> bool:
        return (self.id, self.uuid) == (other.id, other.uuid) if isinstance(other, StepRef) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.id, self.uuid))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One unit of work, as stored in the database."""

    id: int
    uuid: str
    workflow_id: str | None
    parent_step_id: int | None
    block_uuid: str | None
    child_block_uuid: str | None
    index: int | None
    type: str
    label: str | None
    action: str
    arguments: Json
    relatable_type: str | None
    relatable_id: str | None
    queue: str | None  # None until it is placed, like every setting that plain SQL left out
    group: str | None
    priority: str | None
    state: State
    reason: str | None
    actor: str | None
    trigger_rule: str
    attempts: int
    retries: int
    max_retries: int | None
    not_completed: int
    rescues: int
    dispatch_after: datetime | None
    is_throttled: bool
    was_throttled: bool
    timeout: float | None
    cooldown: float | None
    lease_worker: str | None
    lease_token: int
    lease_deadline: datetime | None
    has_children: bool
    compute_done_at: datetime | None
    stage: str | None
    double_checks: int
    checkpoint: Json
    progress_done: float | None
    progress_total: float | None
    own_code_done_at: datetime | None
    hostname: str | None
    tick_id: int | None
    started_at: datetime | None
    completed_at: datetime | None
    duration: float | None
    error_message: str | None
    error_stack_trace: str | None
    response: Json
    idempotency_key: str | None
    concurrency_key: str | None
    concurrency_limit: int | None
    belongs_to: BelongsTo | None
    kind: str
    template: str | None
    element: int | None
    decision: Json
    created_at: datetime
    updated_at: datetime

    @property
    def ref(self) -> StepRef:
        return StepRef(self.id, self.uuid)

    @property
    def name(self) -> str:
        """For display: its label, or else its action."""
        return self.label or self.action


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One row of a step's history: one change of state (`from_state` is None for its creation)."""

    id: int
    step_id: int
    from_state: State | None
    to_state: State
    reason: str | None
    actor: str | None
    at: datetime
    attempt: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Retried:
    """What a retry did, by the ids of the steps."""

    revived: list[int]  # the step itself and all that returned with it
    handlers_done: list[int]  # exception handlers that ran after the first failure: they do not run again
