"""The sources of obstacles, in the order in which a step's obstacles are listed.

The seam for features: `explain(…, sources=[*SOURCES, mine])` asks one more source. It gets the facts (with the open
transaction, for statements of its own) and a step, and yields `cause(…)` or `behind(…)`; it edits none of these.
"""

from __future__ import annotations

from typing import Final

from stepwell.look.explain import decisions, ended, room, running, waiting
from stepwell.look.explain.found import Source

SOURCES: Final[tuple[Source, ...]] = (
    room.database,
    waiting.not_placed,
    waiting.not_due,
    waiting.parent,
    waiting.order,
    waiting.dormant_handlers,
    waiting.dependencies,
    waiting.unsatisfiable,
    waiting.retries,
    waiting.lost,
    running.lease,
    running.decision,
    ended.lease,
    ended.not_runnable,
    ended.failed,
    decisions.decision,
    room.workflow,
    room.workers,
    room.breaker,
    room.key,
    room.limits,
    room.queue,
    room.slots,
)
