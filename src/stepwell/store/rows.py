"""Building typed rows: one field per column, by name.

The type of a field says how its column is converted: `datetime`, `bool` and `State` are made from the stored value,
`Json` is decoded; everything else is passed through.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from stepwell.model.codec import readable
from stepwell.model.states import State
from stepwell.model.step import Json

Convert: TypeAlias = Callable[[Any], Any]
Values: TypeAlias = Sequence[Any]

UNREADABLE_TIME: Final = datetime.min.replace(tzinfo=UTC)

_STATES: Final = {state.value: state for state in State}


def to_text(time: datetime) -> str:
    """A time as SQLite stores it: UTC with microseconds, sortable as text and readable by its date functions."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def from_text(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return from_text(value)
    except ValueError:  # written by plain SQL: one such row must not hide the others
        return UNREADABLE_TIME


# PostgreSQL returns booleans and times as Python values; the converters leave those unchanged.
_CONVERTERS: Final[dict[Any, Convert]] = {State: _STATES.__getitem__, datetime: _time, bool: bool, Json: readable}


def converter(hint: Any) -> Convert | None:
    """The function that converts a stored value to this type; None if no conversion is needed."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        inner = next((made for part in typing.get_args(hint) if (made := converter(part)) is not None), None)
        return None if inner is None else lambda value: None if value is None else inner(value)
    return _CONVERTERS.get(hint)


def _fields(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    if issubclass(kind, msgspec.Struct):
        return {name: hints[name] for name in kind.__struct_fields__}
    return {name: hints[name] for name in kind.__dataclass_fields__}  # type: ignore[attr-defined]


def is_record(kind: Any) -> bool:
    """Whether a row is an object with a field per column, not a single value."""
    return isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, msgspec.Struct))


@cache
def builder(kind: Any, names: tuple[str, ...]) -> Callable[[Values], Any]:
    """A function that builds a row of this type from the values of these columns."""
    if not is_record(kind):
        convert = converter(kind)
        return (lambda values: values[0]) if convert is None else (lambda values: convert(values[0]))
    fields = _fields(kind)
    if missing := [field for field in fields if field not in names]:
        raise TypeError(
            f"{kind.__name__} needs the columns {', '.join(missing)}; the statement returns {', '.join(names)}"
        )
    places = [(field, names.index(field), converter(hint)) for field, hint in fields.items()]

    def build(values: Values) -> Any:
        return kind(**{
            field: values[place] if convert is None else convert(values[place]) for field, place, convert in places
        })  # fmt: skip

    return build
