"""Filters on steps and workflows: WHERE clauses built from a whitelist of columns, with every value a parameter.

The one builder for lists and for bulk actions: what a list shows is what an action by the same filters is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from stepwell.model import codec
from stepwell.model.errors import StepwellError
from stepwell.model.ids import canonical_uuid
from stepwell.model.states import State
from stepwell.model.suggest import hint, refuse_unknown
from stepwell.store.rows import to_text

STEP_FILTERS: Final = {
    "state": "state",
    "group": '"group"',
    "queue": "queue",
    "action": "action",
    "type": "type",
    "parent": "",  # by the child block of that step
    "block": "block_uuid",
    "relatable_type": "relatable_type",
    "relatable_id": "relatable_id",
    "host": "hostname",
    "reason": "reason",
}
# Where a step stands on the agenda, as people say it.
STATUSES: Final = ("ready", "delayed", "dispatched", "running", "gate", "held", "undecided", "exhausted")
_OTHER_FILTERS: Final = frozenset({
    "id", "workflow", "relatable", "status", "throttled", "fingerprint", "cause", "ended_after", "ended_before", "args"
})  # fmt: skip
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
    _refuse_unknown(given, {*STEP_FILTERS, *_OTHER_FILTERS})
    for value in given.values():
        if isinstance(value, str):
            value.encode()  # raises if it is not valid text, also where nothing is read for the answer
    if "workflow" in given:
        given["workflow"] = _uuid_of("workflow", given["workflow"])
    if "block" in given:
        given["block"] = [_uuid_of("block", block) for block in _listed(given["block"])]
    if "relatable" in given:
        kind, of = given.pop("relatable")
        given |= {"relatable_type": kind, "relatable_id": str(of)}
    if "state" in given:
        states = given["state"]
        listed = states if isinstance(states, list | tuple | set | frozenset) else [states]
        given["state"] = [state_of(state) for state in listed]
    if "status" in given:
        given["status"] = [_status_of(status) for status in _listed(given["status"])]
    if "args" in given:
        given["args"] = _arguments(given["args"])
    return given


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]


def _uuid_of(name: str, value: Any) -> str:
    found = canonical_uuid(str(value))
    if found is None:
        raise StepwellError(f"the filter {name} is {str(value)[:100]!r}, which is not a uuid")
    return found


def _status_of(name: str) -> str:
    if name not in STATUSES:
        raise StepwellError(f"unknown status {name!r}; {hint(name, list(STATUSES), 'statuses')}")
    return "open" if name == "ready" else name


def _arguments(values: Any) -> dict[tuple[str, ...], str]:
    """Values of arguments by their paths (`customer.id`), as text: true, false, null, a number, or the text itself."""
    if not isinstance(values, Mapping):
        raise StepwellError("the filter args is a mapping of paths to values, like {'customer.id': 7}")
    found = {tuple(str(path).split(".")): _as_text(value) for path, value in values.items()}
    for path, text in found.items():
        if any("\\" in part or not part.isprintable() for part in path):  # an escape could spell a secret
            raise StepwellError(
                f"the filter args has the name {'.'.join(path)[:100]!r}: names with backslashes or control characters "
                "cannot be searched for"
            )
        if _is_whole(text):  # it may hold a secret, which is not shown and cannot be searched for
            raise StepwellError(f"the filter args.{'.'.join(path)} is an object or a list; search for one value in it")
    return found


def _is_whole(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        return isinstance(codec.decode(text), dict | list)
    except ValueError:
        return False


def _as_text(value: Any) -> str:
    return (
        {True: "true", False: "false", None: "null"}[value]
        if value is None or value is True or value is False
        else str(value)
    )


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
        elif name == "parent":  # the children of a step are its child block: there is an index by block
            at = conditions.placeholder("parent", value)
            conditions.clauses.append(
                f"block_uuid = (SELECT p.child_block_uuid FROM steps p WHERE p.id = {at}) AND block_uuid <> uuid "
                f"AND parent_step_id = {at}"
            )
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
