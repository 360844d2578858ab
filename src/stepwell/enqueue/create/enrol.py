"""Enrolling new steps: on the agenda, in their blocks and on the marks, where ticks and workers find them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from stepwell.enqueue.create.neighbours import lowest_indexes
from stepwell.enqueue.place import Neighbours, Placement
from stepwell.store import Transaction
from stepwell.store.engine import agenda, creation


def enrol(tx: Transaction, ids: Sequence[int], now: datetime) -> None:
    """Enrol steps by their ids alone."""
    new = _span(ids)
    creation.add_to_blocks(tx, **new)
    creation.add_to_agenda(tx, **new, now=now)
    creation.add_marks(tx, **new)


def enrol_created(tx: Transaction, placements: Sequence[Placement], neighbours: Neighbours, now: datetime) -> None:
    """The same as `enrol`, without reading from the database what the placements already contain."""
    created = _span([placement.id for placement in placements])
    connected = [placement for placement in placements if placement.shares_block or placement.dependencies]
    if len(connected) < len(placements):
        creation.add_to_agenda(tx, **created, now=now)
    if connected:
        creation.add_to_blocks(tx, **created)
        undecided = _undecided(connected, neighbours)
        roots = [placement.id for placement in undecided if placement.parent is None]
        if roots:
            agenda.open_ready(tx, ids=roots, now=now)
        if undecided:
            creation.add_marks(tx, **_span([placement.id for placement in undecided]))


def _undecided(connected: Sequence[Placement], neighbours: Neighbours) -> list[Placement]:
    """The steps that a tick must decide: all except those that wait only for new steps, whose ends will mark them."""
    lowest = lowest_indexes(connected)

    def waits_for_new_steps_alone(placement: Placement) -> bool:
        if placement.is_dormant or _is_dormant(placement.parent) or placement.block in neighbours.joined_blocks:
            return False
        if any(_starts_ended(other) for other in placement.dependencies):
            return False
        waits_for = [other for other in (placement.parent, *placement.dependencies) if other is not None]
        is_behind = placement.index > lowest[placement.block, placement.draft.type]
        return all(isinstance(other, Placement) for other in waits_for) and bool(waits_for or is_behind)

    return [placement for placement in connected if not waits_for_new_steps_alone(placement)]


def _starts_ended(step: object) -> bool:
    """Created as Skipped or Completed, by a declared workflow: no end of it will mark its dependents."""
    return isinstance(step, Placement) and step.state.is_terminal


def _is_dormant(step: object) -> bool:
    return isinstance(step, Placement) and step.is_dormant


def _span(ids: Sequence[int]) -> dict[str, Any]:
    """The range of the ids; the ids themselves only if other transactions have taken some in between."""
    first, last = min(ids), max(ids)
    return {"first": first, "last": last, "ids": list(ids) if last - first + 1 > len(ids) else None}
