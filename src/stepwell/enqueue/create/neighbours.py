"""What new steps change about those that existed before."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.enqueue.place import Neighbours, Placement
from stepwell.store import Transaction


def write_neighbours(tx: Transaction, neighbours: Neighbours, placements: Iterable[Placement]) -> None:
    """Give existing parents their child block, and hold back what now comes after a new step."""
    for parent_id, child_block in sorted(neighbours.child_blocks.items()):
        tx.change("take_children", id=parent_id, child_block=child_block)
    if neighbours.has_dependents:
        tx.change("note_dependents", ids=tx.array(sorted(neighbours.has_dependents)))
    for block in sorted(neighbours.joined_root_blocks):
        tx.change("note_block_dependents", block=block)
        tx.change("enrol_block", block=block)
    joined = [placement for placement in placements if placement.block in neighbours.joined_blocks]
    for (block, kind), index in sorted(lowest_indexes(joined).items()):
        tx.change("withdraw_successors", block=block, type=kind, index=index)


def lowest_indexes(placements: Iterable[Placement]) -> dict[tuple[str, str], int]:
    """The lowest index of these in each block, for plain steps and exception handlers apart."""
    lowest: dict[tuple[str, str], int] = {}
    for placement in placements:
        sequence = (placement.block, placement.draft.type)
        lowest[sequence] = min(placement.index, lowest.get(sequence, placement.index))
    return lowest
