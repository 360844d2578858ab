"""Filters on steps and workflows: which there are, and their values in the form in which they are compared.

The same for lists and for bulk actions: what a list shows is what an action by the same filters is about. What is
checked here becomes SQL in `store/conditions.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepwell.model import codec
from stepwell.model.errors import StepwellError
from stepwell.model.ids import LARGEST_ID, canonical_uuid
from stepwell.model.states import State
from stepwell.model.statuses import STATUSES
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
    "host": "hostname",
    "reason": "reason",
}
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
MOST_ROWS: Final = 2**31 - 1


def check_page(limit: int, before: int | None = None) -> None:
    """Raise if a list cannot be cut there: SQLite takes a negative limit for none, PostgreSQL refuses it."""
    for name, value, most in (("limit", limit, MOST_ROWS), ("before", 0 if before is None else before, LARGEST_ID)):
        if type(value) is not int or not 0 <= value <= most:
            raise StepwellError(f"{name} is {repr(value)[:100]}, not a whole number between 0 and {most}")


def check_step_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    """The filters that are set, by the names of columns; raises on an unknown one."""
    given = {name: value for name, value in filters.items() if value is not None}
    refuse_unknown("steps", given, {*STEP_FILTERS, *_OTHER_FILTERS}, "filter")
    for value in given.values():
        if isinstance(value, str):
            value.encode()  # raises if it is not valid text, also where nothing is read for the answer
    if "workflow" in given:
        given["workflow"] = _uuid_of("workflow", given["workflow"])
    if "block" in given:
        given["block"] = [_uuid_of("block", block) for block in listed(given["block"])]
    if "relatable" in given:
        kind, of = relatable_of(given.pop("relatable"))
        given |= {"relatable_type": kind, "relatable_id": of}
    if "state" in given:
        given["state"] = [state_of(state) for state in listed(given["state"])]
    if "status" in given:
        given["status"] = [_status_of(status) for status in listed(given["status"])]
    if "args" in given:
        given["args"] = _arguments(given["args"])
    return given


def relatable_of(value: Any) -> tuple[str, str]:
    """The type and the id of what a step is about."""
    if not isinstance(value, tuple | list) or len(value) != 2 or not isinstance(value[0], str):
        raise StepwellError(f"relatable is {repr(value)[:100]}; pass a pair of a type and an id, like ('Order', 7)")
    return value[0], str(value[1])


def listed(value: Any) -> list[Any]:
    """A filter takes one value or several.

    >>> listed("alpha"), listed(("alpha", "beta"))
    (['alpha'], ['alpha', 'beta'])
    """
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
    refuse_unknown("workflows", given, {*WORKFLOW_FILTERS, "id", "paused"}, "filter")
    return given


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
