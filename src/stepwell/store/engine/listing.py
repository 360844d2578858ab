"""Pages of steps: which rows a list looks at, and those of them that match."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from stepwell.model.states import State
from stepwell.store.conditions import Conditions, step_conditions
from stepwell.store.engine.counters import counters
from stepwell.store.filters import listed
from stepwell.store.list_sources import source_of
from stepwell.store.rows import builder
from stepwell.store.transaction import Transaction


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step in a list: without its arguments, its response and its stack."""

    id: int
    uuid: str
    workflow_id: str | None
    parent_step_id: int | None
    label: str | None
    action: str
    queue: str | None
    group: str | None
    priority: str | None
    type: str
    kind: str
    state: State
    reason: str | None
    actor: str | None
    error: str | None  # the beginning of the first error
    attempts: int
    retries: int
    max_retries: int | None
    is_throttled: bool
    has_children: bool
    relatable_type: str | None
    relatable_id: str | None
    hostname: str | None
    dispatch_after: datetime | None
    started_at: datetime | None
    own_code_done_at: datetime | None
    completed_at: datetime | None
    duration: float | None
    created_at: datetime
    updated_at: datetime

    @property
    def name(self) -> str:
        return self.label or self.action


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that a page looks at: those of its source from `floor` on."""

    floor: int
    rows: int
    is_full: bool


_COLUMNS: Final = ", ".join(
    {"group": '"group"', "error": "substr(error_message, 1, 300) AS error"}.get(name, name)
    for name in StepRow.__struct_fields__
)
# What the counters can answer alone.
_COUNTED: Final = frozenset({"state", "action", "queue"})


def window(tx: Transaction, *, filters: Mapping[str, Any], before: int | None, budget: int) -> Window:
    """Of the newest rows of the source below `before`, as many as the budget allows."""
    source = source_of(tx.dialect, filters)
    ids = source.newest(before, budget)
    [row] = tx.fetch(f"SELECT min(id) AS floor, count(*) AS rows FROM ({ids}) AS newest", source.parameters)
    return Window(floor=row["floor"] or 0, rows=row["rows"], is_full=row["rows"] == budget)


def page(
    tx: Transaction, *, filters: Mapping[str, Any], before: int | None, window: Window, limit: int
) -> list[StepRow]:
    conditions = _in_window(tx, filters, before, window)
    at = conditions.placeholder("limit", limit)
    found = tx.fetch(
        f"SELECT {_COLUMNS} FROM steps WHERE {conditions} ORDER BY id DESC LIMIT {at}", conditions.parameters
    )
    if not found:
        return []
    build = builder(StepRow, tuple(found[0]))
    return [build(tuple(row.values())) for row in found]


def looked_at(tx: Transaction, filters: Mapping[str, Any], before: int | None, window: Window, last: int) -> int:
    """How many rows a page looked at that ended early, with this step."""
    source = source_of(tx.dialect, filters)
    ids = source.newest(before, window.rows)
    sql = f"SELECT count(*) AS rows FROM ({ids}) AS newest WHERE id >= {source.placeholder('last', last)}"
    return int(tx.fetch(sql, source.parameters)[0]["rows"])


def count_in_window(tx: Transaction, *, filters: Mapping[str, Any], window: Window, cap: int) -> int:
    conditions = _in_window(tx, filters, None, window)
    at = conditions.placeholder("cap", cap)
    sql = f"SELECT count(*) AS rows FROM (SELECT 1 AS one FROM steps WHERE {conditions} LIMIT {at}) AS found"
    return int(tx.fetch(sql, conditions.parameters)[0]["rows"])


def counted(tx: Transaction, filters: Mapping[str, Any]) -> int | None:
    """How many match, by the counters; None if they cannot say."""
    queued_only = {State.PENDING, State.DISPATCHED}.issuperset(filters.get("state", tuple(State)))
    if not (_COUNTED | ({"group"} if queued_only else set())).issuperset(filters):
        return None
    among = {name: listed(value) for name, value in filters.items()}
    return sum(
        row.number for row in counters(tx) if all(getattr(row, name) in values for name, values in among.items())
    )


def _in_window(tx: Transaction, filters: Mapping[str, Any], before: int | None, window: Window) -> Conditions:
    source = source_of(tx.dialect, filters)
    conditions = step_conditions(tx.dialect, source.others(filters))
    if source.is_scan:
        if before is not None:
            conditions.clauses.append(f"id < {conditions.placeholder('before', before)}")
        conditions.clauses.append(f"id >= {conditions.placeholder('floor', window.floor)}")
    else:
        conditions.clauses.append(f"id {source.among(source.newest(before, window.rows))}")
        conditions.parameters |= source.parameters
    return conditions
