"""Lists of steps: pages by id, newest first, and how many match.

One page looks at a limited number of rows, its budget, and says how many it looked at: a search that finds little ends
in time, and can be continued where it stopped.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stepwell.store import Database, Transaction
from stepwell.store.engine import listing, ticks
from stepwell.store.engine.listing import StepRow
from stepwell.store.filters import check_page, check_step_filters

__all__ = ["BUDGET", "CAP", "Count", "Lists", "Page", "StepRow"]

BUDGET: Final = 20_000  # rows that one page looks at
FIRST_LOOK: Final = 200  # rows that it looks at first: often enough
CAP: Final = 1_000  # a count that has to look at rows ends here


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Steps, newest first. `next` is `before` of the next page; None: there are no more.

    A page may have fewer rows than its limit, or none, and still have a next one: then its budget was used up.
    """

    rows: list[StepRow]
    next: int | None
    looked_at: int


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many steps match; not `exact`: at least this many (`CAP`, or what the budget found)."""

    steps: int
    exact: bool


class Lists:
    def __init__(self, database: Database) -> None:
        self._database = database

    def steps(self, *, limit: int = 50, before: int | None = None, budget: int = BUDGET, **filters: Any) -> Page:
        """A page of the steps that match all filters: those of `app.steps`, and more.

        `state`, `status` (on the agenda: `ready`, `delayed`, `dispatched`, `running`, …), `throttled`, `group`,
        `queue`, `action`, `type`, `reason`, `host`, `workflow`, `block`, `parent`, `relatable`, `id`, `fingerprint`,
        `cause` (a step that took others along), `ended_after`, `ended_before`, and `args={"path.to": value}`.
        """
        check_page(limit, before)
        checked = check_step_filters(filters)

        def look(tx: Transaction) -> Page:
            ticks.keep_to_indexes(tx)
            total = listing.counted(tx, checked) if before is None else None
            if total == 0:
                return Page(rows=[], next=None, looked_at=0)
            return _search(tx, checked, before, limit, budget, total)

        return self._database.read(look)

    def count(self, **filters: Any) -> Count:
        """Exact from the counters if they are by state, action, queue and group alone; else capped."""
        checked = check_step_filters(filters)

        def look(tx: Transaction) -> Count:
            ticks.keep_to_indexes(tx)
            exact = listing.counted(tx, checked)
            if exact is not None:
                return Count(steps=exact, exact=True)
            window = listing.window(tx, filters=checked, before=None, budget=BUDGET)
            found = listing.count_in_window(tx, filters=checked, window=window, cap=CAP)
            return Count(steps=found, exact=found < CAP and not window.is_full)

        return self._database.read(look)


def _search(
    tx: Transaction, filters: dict[str, Any], before: int | None, limit: int, budget: int, total: int | None
) -> Page:
    """Look at a few rows, and at ten times as many while there are not enough hits. `total`: there are no more."""
    rows: list[StepRow] = []
    looked_at, size = 0, FIRST_LOOK
    while True:
        window = listing.window(tx, filters=filters, before=before, budget=min(size, budget - looked_at))
        rows += (hits := listing.page(tx, filters=filters, before=before, window=window, limit=limit - len(rows)))
        if len(rows) == limit:
            seen = listing.looked_at(tx, filters, before, window, hits[-1].id) if hits else 0
            has_more = total != len(rows) and (window.is_full or seen < window.rows)
            return Page(rows=rows, next=rows[-1].id if has_more else None, looked_at=looked_at + seen)
        looked_at, before, size = looked_at + window.rows, window.floor, 10 * size
        if not window.is_full or total == len(rows):
            return Page(rows=rows, next=None, looked_at=looked_at)
        if looked_at >= budget:
            return Page(rows=rows, next=window.floor, looked_at=looked_at)
