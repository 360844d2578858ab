"""Where a list finds its steps: the agenda, `steps_trouble`, an index of `steps`, or all steps, newest first.

The source of a list is narrow and complete: every step that matches the filters is in it. The filters themselves are
applied to the steps of the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepwell.model.states import TROUBLE, State
from stepwell.store.conditions import Conditions, step_conditions
from stepwell.store.filters import listed
from stepwell.store.macros import SQLITE

_LAST_ID: Final = 2**63 - 1
_ON_AGENDA: Final = {State.DISPATCHED: "dispatched", State.RUNNING: "running"}
# Filters by which `steps` has an index. (By relatable: only if the type is given.)
_INDEXED: Final = ("id", "workflow", "block", "parent", "relatable_type")
# Of these, the ones whose index is in the order of ids, with the condition of the index: a page reads a page of it.
_IN_ORDER: Final = {"parent": ("parent_step_id", ""), "workflow": ("workflow_id", " AND workflow_id <> uuid")}
# Running steps whose own code is done: the parents of blocks with unfinished steps, one probe of an index for each, and
# those about which the next tick decides, because all their children have ended: one of these is marked.
_WAITING_PARENTS: Final = """SELECT p.id FROM (
    WITH RECURSIVE blocks (block_uuid) AS (
        SELECT (SELECT u.block_uuid FROM steps_unconcluded u WHERE NOT u.ended ORDER BY u.block_uuid LIMIT 1)
        UNION ALL
        SELECT (SELECT u.block_uuid FROM steps_unconcluded u WHERE NOT u.ended AND u.block_uuid > b.block_uuid
                ORDER BY u.block_uuid LIMIT 1)
        FROM blocks b WHERE b.block_uuid IS NOT NULL
    ) SELECT block_uuid FROM blocks WHERE block_uuid IS NOT NULL) AS b
JOIN steps p ON p.child_block_uuid = b.block_uuid WHERE p.state = 'Running' AND p.lease_worker IS NULL
UNION
SELECT p.id FROM steps_marks m JOIN steps c ON c.id = m.step_id JOIN steps p ON p.id = c.parent_step_id
WHERE p.state = 'Running' AND p.lease_worker IS NULL
UNION
SELECT p.id FROM steps_marks m JOIN steps p ON p.id = m.step_id WHERE p.state = 'Running' AND p.lease_worker IS NULL"""


class Source:
    """The ids of the steps among which a list looks."""

    def __init__(self, dialect: str) -> None:
        self._conditions = Conditions(dialect)
        self._is_sqlite = dialect == SQLITE
        self._parts: list[str] = []
        self._in_index: str | None = None  # the filter whose index is in the order of ids
        self._in_order = False

    def others(self, filters: Mapping[str, Any]) -> dict[str, Any]:
        """The filters without the one that the source is: a planner could find its rows by that one, and read all."""
        return {name: value for name, value in filters.items() if name != self._in_index}

    @property
    def is_scan(self) -> bool:
        return not self._parts

    @property
    def parameters(self) -> dict[str, Any]:
        return self._conditions.parameters

    def placeholder(self, name: str, value: Any) -> str:
        return self._conditions.placeholder(f"source_{name}", value)

    def add(self, table: str, column: str, values: list[str]) -> None:
        """Steps of one of the small tables, by an indexed column."""
        self._in_order = table == "steps_trouble"
        for number, value in enumerate(values):
            at = self.placeholder(f"{table}_{column}_{number}", value)
            # A literal, so that partial indexes apply; the value is one of a few names, checked before.
            at = f"'{value}'" if column in ("status", "state") else at
            self._parts.append(f"SELECT step_id AS id FROM {table} WHERE {column} = {at}")

    def add_sql(self, sql: str) -> None:
        self._in_order = False
        self._parts.append(f"SELECT id FROM ({sql}) AS more")

    def add_steps(self, dialect: str, filters: Mapping[str, Any]) -> None:
        """Steps by an index."""
        conditions = step_conditions(dialect, filters)
        self._parts.append(f"SELECT id FROM steps WHERE {conditions}")
        self._conditions.parameters |= conditions.parameters

    def add_in_order(self, name: str, value: Any) -> None:
        """Steps by an index that is in the order of ids."""
        column, more = _IN_ORDER[name]
        at = self.placeholder(name, value)
        self._in_index = name
        if name == "workflow":
            self._parts.append(f"SELECT id FROM steps WHERE uuid = {at}")
        self._parts.append(f"SELECT id FROM steps WHERE {column} = {at}{more}")

    def all(self) -> str:
        return " UNION ALL ".join(self._parts)

    def newest(self, before: int | None, limit: int) -> str:
        """The ids below `before`, newest first, at most this many."""
        at = self.placeholder("limit", limit)
        parts = self._parts or ["SELECT id FROM steps"]
        if self._in_index is not None:
            parts = [*parts[:-1], self._newest_of_index(self._in_index, before, at)]
        ids = " UNION ALL ".join(parts)
        where = "" if before is None else f"WHERE id < {self.placeholder('before', before)}"
        # The index of `steps_trouble` is in the order of ids. Elsewhere that order would be the one of the primary key,
        # in which a planner may read everything.
        order = "id" if self.is_scan or self._in_order else "id + 0"
        return f"SELECT id FROM ({ids}) AS among {where} ORDER BY {order} DESC LIMIT {at}"

    def _newest_of_index(self, name: str, before: int | None, limit: str) -> str:
        """The first rows of an index, from its end.

        Told that all have one value of the column, PostgreSQL's planner may take the order of the primary key instead,
        and read the steps of all others.
        """
        column, more = _IN_ORDER[name]
        value = self.placeholder(name, self.parameters[f"source_{name}"])
        last = self.placeholder("last_id", before if before is not None else _LAST_ID)
        of_value = f"({column}, id) < ({value}, {last}) AND {column} >= {value}"
        order = f"{column} DESC, id DESC"
        if self._is_sqlite:
            of_value, order = f"{column} = {value} AND id < {last}", "id DESC"
        ids = f"SELECT id FROM steps WHERE {of_value}{more} ORDER BY {order} LIMIT {limit}"
        return f"SELECT id FROM ({ids}) AS newest_of_index"

    def among(self, ids: str) -> str:
        return f"IN ({ids})" if self._is_sqlite else f"= ANY(ARRAY({ids}))"


def narrowed(dialect: str, filters: Mapping[str, Any]) -> Conditions:
    """The WHERE clause on `steps` of checked filters and of their source: for lists and actions without a budget."""
    conditions = step_conditions(dialect, filters)
    source = source_of(dialect, filters)
    if not source.is_scan:
        conditions.clauses.append(f"id {source.among(source.all())}")
        conditions.parameters |= source.parameters
    return conditions


def source_of(dialect: str, filters: Mapping[str, Any]) -> Source:
    """The narrowest source that has every step that can match these filters."""
    source = Source(dialect)
    if indexed := next((name for name in _INDEXED if name in filters), None):
        if indexed in _IN_ORDER:
            source.add_in_order(indexed, filters[indexed])
            return source
        names = (indexed, "relatable_id") if indexed == "relatable_type" else (indexed,)
        source.add_steps(dialect, {name: filters[name] for name in names if name in filters})
    elif "fingerprint" in filters or "cause" in filters:
        name = "fingerprint" if "fingerprint" in filters else "cause"
        source.add("steps_trouble", name, listed(filters[name]))
    elif "status" in filters:
        source.add("steps_agenda", "status", filters["status"])
    elif "state" in filters and TROUBLE.union(_ON_AGENDA).issuperset(filters["state"]):
        states = set(filters["state"])
        source.add("steps_trouble", "state", [str(state) for state in sorted(states & TROUBLE)])
        if on_agenda := [_ON_AGENDA[state] for state in sorted(states & _ON_AGENDA.keys())]:
            source.add("steps_agenda", "status", on_agenda)
        if State.RUNNING in states:
            source.add_sql(_WAITING_PARENTS)
    return source
