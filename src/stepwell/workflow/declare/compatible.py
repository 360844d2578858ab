"""Whether a parameter can take a result: what its annotation accepts, compared with what the upstream step returns.

Values travel as JSON, so types are compared by their JSON form: two models are compatible if the fields that one
requires are fields of the other. A mismatch is reported only if no value can be decoded, or if it makes no sense
(`list[int]` for `list[str]`, although an empty list would do). Of a union, one member is enough.
"""

from __future__ import annotations

import enum
import typing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from stepwell.workflow.declare.annotations import NONE, Field, element_of, fields_of, members, plain

_TEXT: Final = (str, bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)
# What JSON a type is written as, and what else it can be read from.
_WRITTEN: Final[dict[Any, str]] = {NONE: "null", bool: "boolean", int: "integer", float: "number"}
_WRITTEN.update(dict.fromkeys(_TEXT, "text"))
_ALSO_READ: Final[dict[Any, set[str]]] = {float: {"integer"}, Decimal: {"integer", "number"}}
_ANYTHING: Final = (Any, object)


def can_take(target: Any, source: Any) -> bool:
    """Whether a parameter annotated as `target` can take a value of the type `source`.

    >>> can_take(float, int), can_take(int, str), can_take(list[int] | None, list[int]), can_take(list[str], list[int])
    (True, False, True, False)
    """
    return _can_take(target, source, frozenset())


def _can_take(target: Any, source: Any, seen: frozenset[tuple[int, int]]) -> bool:
    pair = (id(plain(target)), id(plain(source)))
    if pair in seen:
        return True  # a type that contains itself
    seen |= {pair}
    return any(_takes_one(to, from_, seen) for to in members(target) for from_ in members(source))


def _takes_one(target: Any, source: Any, seen: frozenset[tuple[int, int]]) -> bool:
    if target in _ANYTHING or source in _ANYTHING or target == source or isinstance(target, str):
        return True
    if source in (typing.NoReturn, typing.Never):
        return True
    if typing.get_origin(target) is typing.Literal or typing.get_origin(source) is typing.Literal:
        return _takes_literal(target, source, seen)
    to_element, from_element = element_of(target), element_of(source)
    if to_element is not None and from_element is not None:
        return _can_take(to_element, from_element, seen)
    written, readable = _json_of(source), _json_of(target)
    if written is None or readable is None:
        return True  # a type of which nothing is known: decoded by code of its own, or not at all
    if written.isdisjoint(readable | _ALSO_READ.get(target, set())):
        return False
    return written != {"object"} or _takes_object(target, source, seen)


def _json_of(hint: Any) -> set[str] | None:
    """What JSON a type is written as; None if nothing is known about it."""
    kind = typing.get_origin(hint) or hint
    if kind in _WRITTEN:
        return {_WRITTEN[kind]}
    if element_of(hint) is not None:
        return {"list"}
    if not isinstance(kind, type):
        return None
    if issubclass(kind, enum.Enum):
        return {_WRITTEN[type(member.value)] for member in kind if type(member.value) in _WRITTEN} or None
    if issubclass(kind, tuple):
        return {"list"}
    return {"object"} if issubclass(kind, dict) or fields_of(hint) is not None else None


def _takes_literal(target: Any, source: Any, seen: frozenset[tuple[int, int]]) -> bool:
    if typing.get_origin(target) is not typing.Literal:
        return any(_takes_one(target, type(value), seen) for value in typing.get_args(source))
    values = typing.get_args(target)
    if typing.get_origin(source) is typing.Literal:
        return not set(values).isdisjoint(typing.get_args(source))
    return any(_takes_one(type(value), source, seen) for value in values)


def _takes_object(target: Any, source: Any, seen: frozenset[tuple[int, int]]) -> bool:
    from_fields, to_fields = fields_of(source), fields_of(target)
    if target in getattr(source, "__mro__", ()):
        return True
    if to_fields is not None:
        return _takes_fields(to_fields, from_fields, _value_type(source), seen)
    to_value = _value_type(target)
    if from_fields is not None:
        return all(_can_take(to_value, field.type, seen) for field in from_fields.values() if field.required)
    return _can_take(to_value, _value_type(source), seen)


def _takes_fields(
    to_fields: dict[str, Field], from_fields: dict[str, Field] | None, value: Any, seen: frozenset[tuple[int, int]]
) -> bool:
    """A model needs its required fields; those of a dict are not known before it runs."""
    for name, field in to_fields.items():
        found = Field(value, False) if from_fields is None else from_fields.get(name)
        if found is None and field.required:
            return False
        if found is not None and not _can_take(field.type, found.type, seen):
            return False
    return True


def _value_type(hint: Any) -> Any:
    arguments = typing.get_args(plain(hint))
    return arguments[1] if len(arguments) == 2 else Any
