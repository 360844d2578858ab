"""Placing new steps: fills in the placements, one aspect after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stepwell.enqueue.cycles import refuse_cycles
from stepwell.enqueue.place.blocks import assign_blocks
from stepwell.enqueue.place.order import parents_first
from stepwell.enqueue.place.placement import Names, Neighbours, Placement, names_others
from stepwell.enqueue.place.queues import queue_of
from stepwell.enqueue.place.references import References, find_existing
from stepwell.enqueue.place.workflows import assign_workflows
from stepwell.model.step import StepRef
from stepwell.model.suggest import warn_of_new_group
from stepwell.store import Transaction
from stepwell.store.engine import creation


def place(
    tx: Transaction,
    placements: Sequence[Placement],
    names: Names,
    known: Mapping[int, StepRef] = MappingProxyType({}),
) -> tuple[list[Placement], Neighbours]:
    """Fill in every placement, or raise InvalidStep. Locks the existing steps that are involved.

    `known` are drafts of the same call, by identity, that already exist under their idempotency key. Returns the
    placements with parents before their children, and what changes for existing steps.
    """
    neighbours = Neighbours()
    # Most steps of a large call refer to no other step: they only need a group and a queue.
    naming = [placement for placement in placements if names_others(placement.draft)]
    new: dict[int | str, Placement] = {}  # by the identity of the draft, and by uuid
    if naming:
        new |= {placement.draft.identity: placement for placement in placements}
        new |= {placement.uuid: placement for placement in placements}
    references = References(new, known, find_existing(tx, naming, new, known))
    for placement in naming:
        references.resolve(placement, neighbours)
    assign_blocks(tx, naming, new, neighbours, names.uuids)
    in_order = parents_first(placements) if naming else list(placements)
    assign_workflows(tx, placements, naming, names.rotation)
    for placement in in_order:
        _assign_queue(placement, names.queues)
    if any(placement.dependencies for placement in naming):
        refuse_cycles(tx, placements, neighbours.joined_blocks | set(neighbours.child_blocks.values()))
    # Written last, so that an error leaves nothing behind in the caller's transaction.
    for group in sorted({placement.draft.group for placement in naming if placement.draft.group is not None}):
        if creation.ensure_group(tx, group=group):
            warn_of_new_group(group, names.rotation)
    return in_order, neighbours


def _assign_queue(placement: Placement, queues: set[str]) -> None:
    """Priority is inherited from the parent or the block, and decides the queue, unless the draft has its own."""
    above = placement.parent or placement.block_root
    placement.priority = placement.draft.priority or ("default" if above is None else above.priority)
    placement.queue = queue_of(placement.draft.queue, placement.priority, queues)
