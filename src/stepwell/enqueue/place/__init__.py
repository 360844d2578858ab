"""Where a new step stands: its parent, block and index, its workflow and group, its queue and priority.

Steps that are connected (parent and child, one block, a DAG edge) share one workflow and one group. Creating steps
through the API and adopting rows that plain SQL wrote both come through here.
"""

from __future__ import annotations

from stepwell.enqueue.place.placement import Names, Neighbours, Placement, names_others
from stepwell.enqueue.place.placing import place

__all__ = ["Names", "Neighbours", "Placement", "names_others", "place"]
