"""Steps of the archive, as they were when they left `steps`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stepwell.model.states import State
from stepwell.model.step import Step, Transition
from stepwell.store import Transaction
from stepwell.store.engine import retention
from stepwell.store.engine.reading import LogLine


@dataclass(frozen=True, slots=True)
class ArchivedStep:
    """A step with all that belonged to it."""

    step: Step
    archived_at: datetime
    history: list[Transition]
    logs: list[LogLine]
    depends_on: list[int]
    answer: dict[str, Any] | None
    operations: list[dict[str, Any]]


def archived_step(tx: Transaction, step: Step) -> ArchivedStep:
    """The rest of a step that was found in the archive."""
    row = retention.archived_with(tx, id=step.id)
    assert row is not None
    return ArchivedStep(
        step=step,
        archived_at=row.archived_at,
        history=[_transition(step.id, item) for item in row.history],
        logs=[LogLine(**{**item, "at": _time(item["at"])}) for item in row.logs or []],
        depends_on=row.depends_on or [],
        answer=row.answer,
        operations=row.operations or [],
    )


def _transition(step_id: int, item: dict[str, Any]) -> Transition:
    return Transition(
        id=item["id"],
        step_id=step_id,
        from_state=None if item["from"] is None else State(item["from"]),
        to_state=State(item["to"]),
        reason=item["reason"],
        actor=item["actor"],
        at=_time(item["at"]),
        attempt=item["attempt"],
        error=item["error"],
    )


def _time(text: str) -> datetime:
    """SQLite stores UTC without an offset."""
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
