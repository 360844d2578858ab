"""What a row of `steps` and of its history looks like in Python. Frozen, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, Self

from stepwell.model import codec
from stepwell.model.states import State


@dataclass(frozen=True, slots=True)
class StepRef:
    """The identity of a step: what creating it returns."""

    id: int
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One unit of work, as it stands in the database."""

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
    arguments: Any
    relatable_type: str | None
    relatable_id: str | None
    queue: str
    group: str | None
    priority: str
    state: State
    reason: str | None
    actor: str | None
    trigger_rule: str
    attempts: int
    retries: int
    max_retries: int
    not_completed: int
    rescues: int
    dispatch_after: datetime | None
    is_throttled: bool
    was_throttled: bool
    timeout: float
    cooldown: float
    lease_worker: str | None
    lease_token: int
    lease_deadline: datetime | None
    has_children: bool
    compute_done_at: datetime | None
    stage: str | None
    double_checks: int
    checkpoint: Any
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
    response: Any
    idempotency_key: str | None
    concurrency_key: str | None
    concurrency_limit: int
    created_at: datetime
    updated_at: datetime

    @property
    def ref(self) -> StepRef:
        return StepRef(self.id, self.uuid)

    @property
    def name(self) -> str:
        """How people call it: its label, or else its action."""
        return self.label or self.action

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        values = {name: row[name] for name in _STEP_FIELDS}
        values["state"] = State(row["state"])
        values["arguments"] = codec.readable(row["arguments"])
        values["response"] = codec.readable(row["response"])
        values["checkpoint"] = codec.readable(row["checkpoint"])
        for name in ("is_throttled", "was_throttled", "has_children"):
            values[name] = bool(row[name])  # SQLite stores them as 0 and 1
        return cls(**values)


_STEP_FIELDS: Final = tuple(field.name for field in fields(Step))


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

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        values = {field.name: row[field.name] for field in fields(cls)}
        values["from_state"] = None if values["from_state"] is None else State(values["from_state"])
        values["to_state"] = State(values["to_state"])
        return cls(**values)
