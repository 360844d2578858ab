"""WHERE clauses from checked filters (`store/filters.py`): a whitelist of columns, and every value a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from stepwell.store.filters import STEP_FILTERS, WORKFLOW_FILTERS, listed
from stepwell.store.macros import SQLITE
from stepwell.store.rows import to_text

_PAUSED: Final = "EXISTS (SELECT 1 FROM steps_paused_workflows p WHERE p.workflow_id = steps_workflows.id)"


class Conditions:
    """Clauses joined by AND, and their parameters."""

    def __init__(self, dialect: str) -> None:
        self.clauses = ["1 = 1"]
        self.parameters: dict[str, Any] = {}
        self._is_sqlite = dialect == SQLITE

    def __str__(self) -> str:
        return " AND ".join(self.clauses)

    def placeholder(self, name: str, value: Any) -> str:
        self.parameters[name] = value
        return f":{name}" if self._is_sqlite else f"%({name})s"

    def add_among(self, name: str, clause: str, value: Any) -> None:
        """`clause` has `{among}` where the list of values belongs."""
        places = [self.placeholder(f"{name}_{position}", each) for position, each in enumerate(listed(value))]
        self.clauses.append(clause.format(among=f"IN ({', '.join(places) or 'NULL'})"))

    def moment(self, value: datetime) -> Any:
        return to_text(value) if self._is_sqlite else value

    def add_argument(self, name: str, path: Sequence[str], text: str) -> None:
        """An argument has this value, as text."""
        at = self.placeholder(name, text)
        if self._is_sqlite and any('"' in part for part in path):
            self.clauses.append("1 = 0")  # its paths cannot name such a key
        elif self._is_sqlite:
            quoted = "".join(f"[{part}]" if part.isascii() and part.isdecimal() else f'."{part}"' for part in path)
            where = self.placeholder(f"{name}_path", f"${quoted}")
            self.clauses.append(
                f"CASE json_type(arguments, {where}) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' "
                f"WHEN 'null' THEN 'null' ELSE CAST(json_extract(arguments, {where}) AS text) END = {at}"
            )
        else:
            where = self.placeholder(f"{name}_path", list(path))
            self.clauses.append(
                f"CASE json_typeof(arguments #> CAST({where} AS text[])) WHEN 'null' THEN 'null' "
                f"ELSE arguments #>> CAST({where} AS text[]) END = {at}"
            )

    def add_ids(self, column: str, value: Any, kind: str) -> None:
        """Selected rows: one parameter, however many they are."""
        at = self.placeholder("ids", listed(value))
        among = f"IN (SELECT value FROM json_each({at}))" if self._is_sqlite else f"= ANY(CAST({at} AS {kind}[]))"
        self.clauses.append(f"{column} {among}")


def step_conditions(dialect: str, filters: Mapping[str, Any]) -> Conditions:
    """The WHERE clause on `steps` of checked filters."""
    conditions = Conditions(dialect)
    for name, value in filters.items():
        if name == "workflow":
            at = conditions.placeholder("workflow", value)
            conditions.clauses.append(f"(uuid = {at} OR workflow_id = {at} AND workflow_id <> uuid)")
        elif name == "id":
            conditions.add_ids("id", value, "bigint")
        elif name == "status":
            clause = "id IN (SELECT a.step_id FROM steps_agenda a WHERE a.status {among})"
            conditions.add_among(name, clause, value)
        elif name in ("fingerprint", "cause"):
            conditions.add_among(name, f"id IN (SELECT t.step_id FROM steps_trouble t WHERE t.{name} {{among}})", value)
        elif name == "throttled":
            conditions.clauses.append(f"{'' if value else 'NOT '}(state = 'Pending' AND is_throttled)")
        elif name in ("ended_after", "ended_before"):
            at = conditions.placeholder(name, conditions.moment(value))
            conditions.clauses.append(f"completed_at {'>=' if name == 'ended_after' else '<'} {at}")
        elif name == "args":
            for number, (path, text) in enumerate(value.items()):
                conditions.add_argument(f"arg_{number}", path, text)
        elif name == "block":  # most blocks have a single step, whose uuid names them
            clause = "(uuid {among} AND block_uuid = uuid OR block_uuid {among} AND block_uuid <> uuid)"
            conditions.add_among(name, clause, value)
        else:
            conditions.add_among(name, f"{STEP_FILTERS[name]} {{among}}", value)
    return conditions


def workflow_conditions(dialect: str, filters: Mapping[str, Any]) -> Conditions:
    """The WHERE clause on `steps_workflows` of checked filters."""
    conditions = Conditions(dialect)
    for name, value in filters.items():
        if name == "paused":
            conditions.clauses.append(_PAUSED if value else f"NOT {_PAUSED}")
        elif name == "id":
            conditions.add_ids("id", value, "uuid")
        else:
            conditions.add_among(name, f"{WORKFLOW_FILTERS[name]} {{among}}", value)
    return conditions
