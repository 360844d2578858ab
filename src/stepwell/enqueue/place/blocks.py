"""Blocks: a child belongs to its parent's child block; a step that names a block joins it, below the block's parent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepwell.enqueue.place.placement import Neighbours, Placement, require_uuid
from stepwell.enqueue.place.references import refuse_unplaced
from stepwell.model.errors import InvalidStep
from stepwell.model.ids import Uuid7Generator
from stepwell.model.reasons import DORMANT
from stepwell.model.states import UNFINISHED
from stepwell.store import Transaction
from stepwell.store.engine import placement as placement_verbs
from stepwell.store.engine.placement import ExistingStep


def assign_blocks(
    tx: Transaction,
    placements: Sequence[Placement],
    new: Mapping[int | str, Placement],
    neighbours: Neighbours,
    uuids: Uuid7Generator,
) -> None:
    """Give every step its block, and its parent if it names only the block."""
    declared = {p.child_block: p for p in placements if p.child_block}
    if len(declared) != sum(1 for p in placements if p.child_block):
        raise InvalidStep("two steps declare the same child_block; a block has one parent")
    for block, placement in declared.items():
        _refuse_occupied(tx, block, placement, placement.id)
    existing = _ExistingBlocks(tx, neighbours)
    for placement in placements:
        named = placement.draft.block
        if named is not None:
            named = require_uuid(named, "block")
            if placement.parent is None:
                placement.parent = declared.get(named) or existing.parent_of(named)
        if placement.parent is not None:
            _refuse_ended(placement)
            if (
                named is not None
                and isinstance(placement.parent, ExistingStep)
                and not placement.parent.child_block_uuid
            ):
                _refuse_occupied(tx, named, placement, placement.parent.id)
            placement.block = _child_block_of(placement.parent, named, placement, neighbours, uuids)
        elif named is not None:
            existing.join_root_block(placement, named, new.get(named))


class _ExistingBlocks:
    """The blocks that a call names, each looked up and locked once."""

    def __init__(self, tx: Transaction, neighbours: Neighbours) -> None:
        self._tx = tx
        self._neighbours = neighbours
        self._parents: dict[str, ExistingStep | None] = {}
        self._roots: dict[str, Placement | ExistingStep] = {}  # of root blocks: a step that belongs to them already

    def parent_of(self, block: str) -> ExistingStep | None:
        """The step whose child block this is; None for a root block, whose steps have no parent."""
        if block not in self._parents:
            self._parents[block] = self._look_up(self._tx, block)
        return self._parents[block]

    def _look_up(self, tx: Transaction, block: str) -> ExistingStep | None:
        placement_verbs.lock_name(tx, name=f"block {block}")
        if (parent := _locked(tx, placement_verbs.parent_of_block(tx, block=block))) is not None:
            refuse_unplaced(parent)
            return parent
        if (block_root := _locked(tx, placement_verbs.member_of_block(tx, block=block))) is not None:
            refuse_unplaced(block_root)
            self._roots[block] = block_root
            self._neighbours.joined_root_blocks.add(block)
            self._neighbours.joined_blocks.add(block)
        return None

    def join_root_block(self, placement: Placement, block: str, namesake: Placement | None) -> None:
        """`namesake` is the step of this call, if any, whose uuid is the name of the block: it owns the block."""
        placement.block = block
        placement.has_dependents = True
        if namesake is not None and namesake.parent is None:
            self._roots.setdefault(block, namesake)
            self._neighbours.joined_root_blocks.add(block)
        block_root = self._roots.setdefault(block, placement)
        placement.block_root = None if block_root is placement else block_root


def _locked(tx: Transaction, step_id: int | None) -> ExistingStep | None:
    """None also if retention has deleted it since it was found."""
    found = [] if step_id is None else placement_verbs.lock_steps(tx, ids=[step_id], uuids=[])
    return found[0] if found else None


def _refuse_occupied(tx: Transaction, block: str, placement: Placement, parent_id: int) -> None:
    """A block that has a parent, or steps without one, cannot become the child block of another step."""
    placement_verbs.lock_name(tx, name=f"block {block}")
    if (taken_by := placement_verbs.occupant_of_block(tx, block=block, parent=parent_id)) is not None:
        raise InvalidStep(
            f"{placement.name!r} uses {block} as child_block, but step {taken_by} already uses it; nothing was written"
        )


def _refuse_ended(placement: Placement) -> None:
    parent = placement.parent
    if isinstance(parent, Placement) or parent is None or parent.state in UNFINISHED:
        return
    if parent.reason != DORMANT:
        raise InvalidStep(
            f"{placement.name!r} cannot become a child of step {parent.id}, which has ended ({parent.state}); "
            "nothing was written: retry that step first, or create this one without a parent"
        )


def _child_block_of(
    parent: Placement | ExistingStep,
    named: str | None,
    placement: Placement,
    neighbours: Neighbours,
    uuids: Uuid7Generator,
) -> str:
    """The parent's child block, which is created with its first child."""
    if isinstance(parent, Placement):
        parent.has_children = True
        parent.child_block = parent.child_block or named or uuids.next()
        block = parent.child_block
    else:
        if parent.child_block_uuid is not None:
            neighbours.joined_blocks.add(parent.child_block_uuid)
        block = parent.child_block_uuid = parent.child_block_uuid or named or uuids.next()
        neighbours.child_blocks[parent.id] = block
    if named is not None and named != block:
        raise InvalidStep(f"{placement.name!r} names block {named}, but its parent's child block is {block}")
    if placement.uuid == block:
        raise InvalidStep(f"{placement.name!r} has the uuid of its parent's child block, {block}; use a different one")
    return block


def refuse_names_of_blocks(tx: Transaction, uuids: Sequence[str]) -> None:
    """A step starts in a block named after its uuid: no other step may belong to that block already."""
    for name in placement_verbs.existing_blocks(tx, uuids=uuids):
        raise InvalidStep(f"the uuid {name} is the name of an existing block; use a different one")
