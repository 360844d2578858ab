"""What an annotation says about a parameter: optional, a list, an `Outcome`; and the types inside it."""

from __future__ import annotations

import typing
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, is_dataclass
from typing import Any, Final

import msgspec

from stepwell.workflow.declare.type_names import UNION_ORIGINS
from stepwell.workflow.outcome import Outcome

NONE: Final = type(None)
# An annotation that Python cannot resolve, or a place about which nothing is known: compatible with everything.
UNKNOWN: Final = Any


def plain(hint: Any) -> Any:
    """An annotation without aliases, `NewType` and metadata."""
    while True:
        origin = typing.get_origin(hint)
        if origin in (typing.Annotated, typing.Final, typing.ClassVar, typing.Required, typing.NotRequired):
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        elif isinstance(hint, typing.TypeVar):
            return UNKNOWN
        else:
            return NONE if hint is None else hint


def members(hint: Any) -> tuple[Any, ...]:
    """The members of a union; the annotation itself if it is none.

    >>> members(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    hint = plain(hint)
    if typing.get_origin(hint) in UNION_ORIGINS:
        return tuple(found for each in typing.get_args(hint) for found in members(each))
    return (hint,)


def takes_none(hint: Any) -> bool:
    """Whether None is one of its values by itself: `T | None`, not `Any`."""
    return NONE in members(hint)


def without_none(hint: Any) -> Any:
    """`T` of `T | None`."""
    rest = tuple(member for member in members(hint) if member is not NONE)
    return typing.Union[rest] if rest else NONE  # noqa: UP007  (built from a tuple)


def element_of(hint: Any) -> Any:
    """`T` of `list[T]` (or another collection of one type); None if it is no such collection.

    >>> element_of(list[int]), element_of(tuple[str, ...]), element_of(list), element_of(dict[str, int])
    (<class 'int'>, <class 'str'>, typing.Any, None)
    """
    hint = plain(hint)
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if not isinstance(origin, type) or issubclass(origin, str | bytes | bytearray):
        return None
    if issubclass(origin, tuple):
        if hasattr(origin, "_fields"):
            return None
        return arguments[0] if len(arguments) == 2 and arguments[1] is ... else UNKNOWN if not arguments else None
    is_collection = issubclass(origin, list | AbstractSet) or origin in (Sequence, Collection, typing.Iterable)
    if not is_collection and origin.__module__ != "collections.abc":
        return None
    if issubclass(origin, dict) or "Mapping" in origin.__name__:
        return None
    return arguments[0] if len(arguments) == 1 else UNKNOWN


def is_outcome(hint: Any) -> bool:
    hint = plain(hint)
    return hint is Outcome or typing.get_origin(hint) is Outcome


def result_of_outcome(hint: Any) -> Any:
    """`T` of `Outcome[T]`."""
    arguments = typing.get_args(plain(hint))
    return arguments[0] if arguments else UNKNOWN


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a model, by the name under which it is stored."""

    type: Any
    required: bool


def fields_of(hint: Any) -> dict[str, Field] | None:
    """The fields of a dataclass, a msgspec struct, a TypedDict or a pydantic model; None for other types."""
    kind = typing.get_origin(plain(hint)) or plain(hint)
    if not isinstance(kind, type):
        return None
    try:
        if hasattr(kind, "model_fields"):
            return _fields_of_pydantic(kind)
        if issubclass(kind, msgspec.Struct) or is_dataclass(kind) or typing.is_typeddict(kind):
            return _fields_of_msgspec(msgspec.inspect.type_info(kind), typing.get_type_hints(kind, include_extras=True))
    except Exception:  # a forward reference that cannot be resolved, a type that msgspec does not support
        return None
    return None


def _fields_of_msgspec(info: Any, hints: dict[str, Any]) -> dict[str, Field] | None:
    if getattr(info, "array_like", False):
        return None
    return {each.encode_name: Field(hints.get(each.name, UNKNOWN), each.required) for each in info.fields}


def _fields_of_pydantic(kind: Any) -> dict[str, Field] | None:
    found: dict[str, Field] = {}
    for name, field in kind.model_fields.items():
        alias = name if field.validation_alias is None else field.validation_alias
        if not isinstance(alias, str):
            return None  # read from several places
        found[alias] = Field(field.annotation, field.is_required())
    return found


def type_at(hint: Any, keys: tuple[str, ...]) -> Any:
    """The type of the value at a path inside a value of this type; UNKNOWN if that cannot be said.

    >>> class Order(msgspec.Struct):
    ...     lines: list[int]
    >>> type_at(dict[str, Order], ("first", "lines"))
    list[int]
    """
    for key in keys:
        hint = without_none(hint)
        fields = fields_of(hint)
        if fields is not None:
            if key not in fields:
                return UNKNOWN
            hint = fields[key].type
        elif typing.get_origin(hint) is dict:
            hint = typing.get_args(hint)[1]
        else:
            return UNKNOWN
    return hint
