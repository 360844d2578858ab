"""Reporting the creation of steps to the subscribers of changes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from stepwell.enqueue.place import Placement
from stepwell.model.reasons import DORMANT
from stepwell.model.states import State
from stepwell.store import Change, Transaction


def announce(tx: Transaction, placements: Iterable[Placement], now: datetime) -> None:
    """Report the new steps, if there are subscribers."""
    if tx.collects_changes:
        tx.changed([_created(placement, now) for placement in placements])


def _created(placement: Placement, now: datetime) -> Change:
    reason = DORMANT if placement.is_dormant else None
    if placement.draft.planned is not None:
        reason = placement.draft.planned.reason
    return created(placement.id, placement.workflow, placement.draft.action, placement.state, reason, now)


def created(step_id: int, workflow: str, action: str, state: State, reason: str | None, now: datetime) -> Change:
    """The creation of a step as a change."""
    return Change(
        step_id=step_id,
        workflow_id=workflow,
        action=action,
        from_state=None,
        to_state=state,
        reason=reason,
        at=now,
        attempt=0,
    )
