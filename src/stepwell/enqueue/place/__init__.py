"""The placement of a new step: its parent, block and index, its workflow and group, its queue and priority.

Connected steps (parent and child, one block, a DAG edge) share one workflow and one group. Both creating steps through
the API and adopting rows written by plain SQL use this package.
"""

from __future__ import annotations

from stepwell.enqueue.place.placement import Names, Neighbours, Placement, names_others
from stepwell.enqueue.place.placing import place

__all__ = ["Names", "Neighbours", "Placement", "names_others", "place"]
