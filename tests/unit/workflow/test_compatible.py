"""Which results a parameter can take: an error only where no value could be decoded, or where it makes no sense."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from stepwell.workflow.declare.compatible import can_take


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Point3(Point):
    z: int = 0


@dataclass
class SamePoint:
    x: int
    y: int


@dataclass
class Named:
    x: int
    name: str


class TypedPoint(TypedDict):
    x: int


class Model(pydantic.BaseModel):
    x: int
    note: str = ""


class Texts(pydantic.BaseModel):
    x: str


class Node(msgspec.Struct):
    children: list[Node]


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


Key = NewType("Key", int)
Unknown: Any = type("Unknown", (), {})


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (int, int), (float, int), (Any, int), (int, Any), (object, str), (int | None, int), (int, int | None),
        (int | str, str), (list[int], list[int]), (list[int | None], list[int]), (list[Any], list[int]),
        (list, list[int]), (list[float], list[int]), (tuple[int, ...], list[int]), (set[str], list[str]),
        (dict[str, int], dict[str, int]),
        (dict[str, Any], Point), (dict[str, int], Point), (Point, dict[str, int]), (Point, dict[str, Any]),
        (Point, Point3), (Point3, Point), (Point, SamePoint), (TypedPoint, Point), (Model, Point), (Point, Model),
        (datetime, str), (str, datetime), (Decimal, float), (Decimal, int), (UUID, str), (Colour, str), (str, Colour),
        (int, Level), (Key, int), (Annotated[int, "metres"], int), (Literal["a", "b"], str), (str, Literal["a"]),
        (Literal["a", "b"], Literal["b", "c"]), (Node, Node), (Unknown, int), (int, Unknown), (None, None),
    ],
)  # fmt: skip
def test_it_can_take(target: Any, source: Any) -> None:
    assert can_take(target, source)


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (int, str), (str, int), (int, float), (bool, int), (int, bool), (int, None), (int, list[int]), (list[int], int),
        (list[str], list[int]), (list[int], dict[str, int]), (dict[str, str], dict[str, int]), (int | str, list[int]),
        (Point, int), (int, Point), (Named, Point), (Texts, Point), (dict[str, str], Point), (Point, dict[str, str]),
        (list[Point], Point), (Point, list[Point]), (datetime, int), (Point, str),
        (Literal["a"], Literal["b"]), (Literal["a"], int), (Level, str), (list[list[int]], list[list[str]]),
    ],
)  # fmt: skip
def test_it_cannot_take(target: Any, source: Any) -> None:
    assert not can_take(target, source)
