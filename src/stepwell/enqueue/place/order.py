"""The order of writing: a parent before its children, because their rows refer to its id."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.enqueue.place.placement import Placement
from stepwell.model.errors import InvalidStep


def parents_first(placements: Sequence[Placement]) -> list[Placement]:
    """The same placements, each after its parent; rejects steps that are each other's ancestors."""
    ordered: list[Placement] = []
    is_ordered: dict[int, bool] = {}  # False while the ancestors of a step are being ordered
    for placement in placements:
        chain = [placement]
        while isinstance(chain[-1].parent, Placement) and id(chain[-1].parent) not in is_ordered:
            is_ordered[id(chain[-1])] = False
            chain.append(chain[-1].parent)
        top = chain[-1]
        if isinstance(top.parent, Placement) and not is_ordered[id(top.parent)]:
            names = " → ".join(step.name for step in chain)
            raise InvalidStep(f"these steps are each other's parents: {names}")
        for step in reversed(chain):
            if not is_ordered.get(id(step)):
                is_ordered[id(step)] = True
                ordered.append(step)
    return ordered
