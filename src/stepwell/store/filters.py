"""Filters on steps and workflows: WHERE clauses built from a whitelist of columns, with every value a parameter.

The one builder for lists and for bulk actions: what a list shows is what an action by the same filters is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stepwell.model.errors import StepwellError
from stepwell.model.states import State
from stepwell.model.suggest import hint, refuse_unknown

STEP_FILTERS: Final = {
    "state": "state",
    "group": '"group"',
    "queue": "queue",
    "action": "action",
    "type": "type",
    "parent": "parent_step_id",
    "block": "block_uuid",
    "relatable_type": "relatable_type",
    "relatable_id": "relatable_id",
}
WORKFLOW_FILTERS: Final = {
    "state": "state",
    "namespace": "namespace",
    "name": "name",
    "version": "version",
    "initiator": "initiator",
    "source_system": "source_system",
}
_PAUSED: Final = "EXISTS (SELECT 1 FROM steps_paused_workflows p WHERE p.workflow_id = steps_workflows.id)"


def check_step_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    """The filters that are set, by the names of columns; raises on an unknown one."""
    given = {name: value for name, value in filters.items() if value is not None}
    _refuse_unknown(given, {*STEP_FILTERS, "id", "workflow", "relatable"})
    if "relatable" in given:
        kind, of = given.pop("relatable")
        given |= {"relatable_type": kind, "relatable_id": str(of)}
    if "state" in given:
        states = given["state"]
        listed = states if isinstance(states, list | tuple | set | frozenset) else [states]
        given["state"] = [state_of(state) for state in listed]
    return given


def check_workflow_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in filters.items() if value is not None}
    _refuse_unknown(given, {*WORKFLOW_FILTERS, "id", "paused"})
    return given


def _refuse_unknown(given: Mapping[str, Any], valid: set[str]) -> None:
    refuse_unknown("steps", given, valid, "filter")


def state_of(name: State | str) -> State:
    """A state by its name; case is ignored.

    >>> state_of("failed"), state_of(State.FAILED)
    (<State.FAILED: 'Failed'>, <State.FAILED: 'Failed'>)
    """
    by_name = {str(state).casefold(): state for state in State}
    try:
        return by_name[str(name).casefold()]
    except KeyError:
        raise StepwellError(f"unknown state {name!r}; {hint(name, [*map(str, State)], 'states')}") from None


class Conditions:
    """Clauses joined by AND, and their parameters."""

    def __init__(self, dialect: str) -> None:
        self.clauses = ["1 = 1"]
        self.parameters: dict[str, Any] = {}
        self._is_sqlite = dialect == "sqlite"

    def __str__(self) -> str:
        return " AND ".join(self.clauses)

    def placeholder(self, name: str, value: Any) -> str:
        self.parameters[name] = value
        return f":{name}" if self._is_sqlite else f"%({name})s"

    def add_among(self, name: str, clause: str, value: Any) -> None:
        """`clause` has `{among}` where the list of values belongs."""
        values: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
        places = [self.placeholder(f"{name}_{position}", each) for position, each in enumerate(values)]
        self.clauses.append(clause.format(among=f"IN ({', '.join(places) or 'NULL'})"))

    def add_ids(self, column: str, value: Any, kind: str) -> None:
        """Selected rows: one parameter, however many they are."""
        values = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
        at = self.placeholder("ids", values)
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
