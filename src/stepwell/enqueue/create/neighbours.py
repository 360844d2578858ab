"""What new steps change for existing ones."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.enqueue.place import Neighbours, Placement
from stepwell.store import Transaction
from stepwell.store.engine import creation


def write_neighbours(tx: Transaction, neighbours: Neighbours, placements: Iterable[Placement]) -> None:
    """Set the child block of existing parents, and withdraw existing steps that now come after a new one."""
    for parent_id, child_block in sorted(neighbours.child_blocks.items()):
        creation.set_child_block(tx, id=parent_id, child_block=child_block)
    if neighbours.has_dependents:
        creation.set_has_dependents(tx, ids=sorted(neighbours.has_dependents))
    for block in sorted(neighbours.joined_root_blocks):
        creation.set_block_has_dependents(tx, block=block)
        creation.add_block_members(tx, block=block)
    joined = [placement for placement in placements if placement.block in neighbours.joined_blocks]
    for (block, kind), index in sorted(lowest_indexes(joined).items()):
        creation.mark_unchecked_successors(tx, block=block, type=kind, index=index)
        creation.remove_successors_from_agenda(tx, block=block, type=kind, index=index)


def lowest_indexes(placements: Iterable[Placement]) -> dict[tuple[str, str], int]:
    """The lowest index of these in each block, separately for plain steps and exception handlers."""
    lowest: dict[tuple[str, str], int] = {}
    for placement in placements:
        sequence = (placement.block, placement.draft.type)
        lowest[sequence] = min(placement.index, lowest.get(sequence, placement.index))
    return lowest
