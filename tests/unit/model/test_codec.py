"""What goes into the database as JSON comes out the same; what would not is refused, with its path."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from stepwell import InvalidStep, UnstorableValue
from stepwell.model import codec

storable_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
storable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | storable_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(storable_text, inner, max_size=4),
    max_leaves=20,
)


@given(storable)
def test_every_json_value_comes_back_as_it_was(value: Any) -> None:
    assert codec.decode(codec.encode(value)) == value


@given(storable)
def test_what_is_written_is_json_for_everyone(value: Any) -> None:
    assert json.loads(codec.encode(value)) == value


@pytest.mark.parametrize("value", [0, False, "", [], {}, None, 0.0], ids=repr)
def test_an_empty_value_is_a_value(value: Any) -> None:
    assert codec.decode(codec.encode(value)) == value
    assert type(codec.decode(codec.encode(value))) is type(value)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Order:
    number: int
    total: Decimal


class Model:
    """What a pydantic model looks like from outside."""

    def model_dump(self, mode: str, **how: bool) -> dict[str, Any]:
        assert mode == "json"
        return {"name": "Ann"}


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC), "2026-01-02T03:04:05.000678Z"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(seconds=90), "PT90S"),
        (Decimal("12.50"), "12.50"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Colour.RED, "red"),
        (Order(7, Decimal("1.5")), {"number": 7, "total": "1.5"}),
        (Model(), {"name": "Ann"}),
        ((1, 2), [1, 2]),
        ({1: "one"}, {"1": "one"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_common_python_types_have_a_json_form(value: Any, stored: Any) -> None:
    assert codec.decode(codec.encode(value)) == stored
    assert codec.decode(codec.encode({"deep": [value]})) == {"deep": [stored]}


class Opaque:
    pass


def nested(levels: int, leaf: Any = 0) -> Any:
    for _ in range(levels):
        leaf = [leaf]
    return leaf


# What no database is to see: the value, and what the refusal says about it. The conformance tests enqueue them, too.
REFUSED: list[tuple[str, Any, str]] = [
    ("nan", {"rates": [1.0, float("nan")]}, 'arguments["rates"][1]: NaN'),
    ("infinity", {"rate": float("inf")}, 'arguments["rate"]: Infinity'),
    ("minus infinity", {"rate": {"now": float("-inf")}}, 'arguments["rate"]["now"]: -Infinity'),
    ("nan in a tuple", {"rates": (1.0, float("nan"))}, 'arguments["rates"][1]: NaN'),
    ("nan in a set", {"rates": {float("nan")}}, 'arguments["rates"][0]: NaN'),
    ("nan in a dataclass", {"order": Order(1, float("nan"))}, 'arguments["order"].total: NaN'),  # type: ignore[arg-type]
    ("nul", {"name": "a\0b"}, 'arguments["name"]: contains a NUL'),
    ("nul in a key", {"people": [{"na\0me": 1}]}, 'arguments["people"][0]: contains a NUL'),
    ("lone surrogate", {"name": ["ok", "\ud800"]}, 'arguments["name"][1]: contains a lone surrogate'),
    ("lone surrogate in a key", {"\udfff": 1}, "arguments: contains a lone surrogate"),
    ("too deep", {"deep": nested(64)}, "deeper than 64"),
    ("much too deep", {"deep": nested(100_000)}, "deeper than 64"),
    ("too large", {"text": "x" * 1_048_576}, "arguments: 1,048,587 bytes"),
    ("too large in bytes", {"text": "é" * 600_000}, "arguments: 1,200,011 bytes"),
    ("too large an integer", {"n": [2**63]}, 'arguments["n"][0]: integer exceeds 64 bits'),
    ("too small an integer", {"n": -(2**63) - 1}, 'arguments["n"]: integer exceeds 64 bits'),
    ("huge integer", {"n": 10**400}, 'arguments["n"]: integer exceeds 64 bits'),
    ("an object", {"it": Opaque()}, 'arguments["it"]: a Opaque has no JSON form'),
    ("an object inside", {"a": 1, "list": [{"it": 1}, {"it": Opaque()}]}, 'arguments["list"][1]["it"]: a Opaque'),
    ("an object in a tuple", {"list": (1, Opaque())}, 'arguments["list"][1]: a Opaque'),
    ("a class", {"it": Opaque}, 'arguments["it"]: a type has no JSON form'),
    ("a function", {"it": len}, 'arguments["it"]: a builtin_function_or_method has no JSON form'),
    ("a generator", {"it": (i for i in range(3))}, 'arguments["it"]: a generator has no JSON form'),
    ("a complex number", {"it": 1j}, 'arguments["it"]: a complex has no JSON form'),
    ("a key that is no text", {"map": {(1, 2): 3}}, 'arguments["map"]: '),
]


@pytest.mark.parametrize(("value", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_stored_is_refused_with_its_path(value: Any, said: str) -> None:
    with pytest.raises(UnstorableValue) as refusal:
        codec.encode(value)
    assert said in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_a_list_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(UnstorableValue, match="contains itself"):
        codec.encode(value)


def test_what_stands_at_the_limits_is_stored() -> None:
    at_the_limits = {"least": -(2**63), "most": 2**63 - 1, "text": "\u0001\uffff\U0010ffff", "deep": nested(63)}
    assert codec.decode(codec.encode(at_the_limits)) == at_the_limits
    exactly = "x" * (codec.MAX_BYTES - 2)
    assert codec.decode(codec.encode(exactly)) == exactly


def test_a_refusal_is_an_invalid_step_and_a_value_error() -> None:
    assert issubclass(UnstorableValue, InvalidStep)
    assert issubclass(UnstorableValue, ValueError)


def test_the_refusal_names_what_was_being_stored() -> None:
    with pytest.raises(UnstorableValue, match=r"^response\[0\]: NaN"):
        codec.encode([float("nan")], "response")


@given(st.text(st.characters(), max_size=50), st.integers(1, 60))
def test_text_from_outside_is_made_storable_and_short(text: str, limit: int) -> None:
    cleaned = codec.clean_text(text, limit)
    assert "\0" not in cleaned
    cleaned.encode()
    assert len(cleaned) <= limit + len("… (1,000 more characters)")


def test_the_path_of_an_unstorable_value_reads_like_python() -> None:
    class Row(BaseModel):
        price: float

    @dataclass
    class Report:
        rows: list[Row]

    good, bad = Row(price=1.0), Row(price=float("nan"))
    for value, path in (
        ({"rows": [good, good, good, bad]}, 'result["rows"][3].price'),
        (Report([bad]), "result.rows[0].price"),
        ({"a\nb": {1: float("nan")}}, 'result["a\\nb"][1]'),
    ):
        with pytest.raises(UnstorableValue) as caught:
            codec.encode(value, "result")
        assert str(caught.value) == f"{path}: NaN cannot be stored"
