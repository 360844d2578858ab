"""Arguments and results of a job, converted and checked by its annotations."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NoReturn, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel, computed_field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass

from stepwell import InvalidStep, Job, StepwellError, UnstorableValue
from stepwell.define.signature import Signature, is_coroutine
from stepwell.model import codec

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


class Side(Enum):
    BUY = "buy"
    SELL = "sell"


@dataclass
class Order:
    id: UUID
    amount: Decimal
    side: Side
    at: datetime
    tags: list[str]


@dataclass
class Refund:
    id: UUID
    order: UUID


class Point(NamedTuple):
    x: int
    y: int


class Options(TypedDict, total=False):
    dry: bool


class Model(BaseModel):
    n: int


class Candle(BaseModel):
    """Whose names are others in Python than in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    opened_at: datetime
    close: Decimal = Field(alias="c")
    parts: list[Model] = []

    @computed_field
    def is_whole(self) -> bool:
        return not self.parts


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    at: datetime
    ids: set[UUID]


class Numbers(RootModel[list[int]]): ...


class Trade(BaseModel):
    """Which is read by other names than it is written by."""

    model_config = ConfigDict(extra="forbid")

    price: Decimal = Field(validation_alias="p", serialization_alias="price")
    size: int = Field(default=0, validation_alias="s")
    venue: str = Field(default="", serialization_alias="exchange")
    # Each is read under the name of the other.
    bid: int = Field(default=0, validation_alias="ask")
    ask: int = Field(default=0, validation_alias="bid")


@pydantic_dataclass
class Fee:
    amount: Decimal = Field(validation_alias="a")


@dataclass
class Leg:
    trade: Trade


class Trades(RootModel[list[Trade]]): ...


class Book(BaseModel):
    best: Trade = Field(validation_alias=AliasChoices("top", "best"))
    trades: list[Trade] = Field(validation_alias="all")
    by_day: dict[date, Trade | None]
    legs: tuple[Leg, Fee]
    rest: Trades
    maker: str = Field(validation_alias=AliasPath("sides", 0, "name"))
    taker: str = Field(validation_alias=AliasPath("sides", -1, "name"))
    chosen: int = Field(validation_alias=AliasChoices(AliasPath("many", 1), "one"), serialization_alias="it")


TRADE = Trade.model_validate({"p": "1.5", "s": 2, "venue": "here", "ask": 3, "bid": 4})
BOOK = Book.model_validate(
    {
        "top": TRADE, "all": [TRADE, TRADE], "by_day": {date(2026, 1, 1): TRADE, date(2026, 1, 2): None},
        "legs": (Leg(TRADE), Fee(a=Decimal(1))),  # type: ignore[call-arg]
        "rest": [TRADE], "sides": [{"name": "Ann"}], "one": 1,
    }
)  # fmt: skip

CANDLE = Candle.model_validate({"openedAt": "2026-01-01T00:00:00Z", "c": "1.5", "parts": [{"n": 1}]})


ORDER = Order(UUID(int=7), Decimal("1.10"), Side.SELL, datetime(2026, 1, 1, tzinfo=UTC), ["a"])

VALUES: list[tuple[Any, Any]] = [
    (int, 7),
    (float, 1.5),
    (str, "text"),
    (bool, True),
    (int | None, None),
    (list[int], [1, 2]),
    (dict[str, float], {"a": 1.5}),
    (dict[int, str], {1: "a"}),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (datetime, datetime(2026, 1, 1, 12, tzinfo=UTC)),
    (date, date(2026, 1, 1)),
    (timedelta, timedelta(seconds=90)),
    (Decimal, Decimal("0.10")),
    (UUID, UUID(int=1)),
    (bytes, b"raw"),
    (Side, Side.BUY),
    (Order, ORDER),
    (list[Order], [ORDER]),
    (dict[str, Order | None], {"a": ORDER, "b": None}),
    (Point, Point(1, 2)),
    (Options, {"dry": True}),
    (Literal["a", "b"], "b"),
    (Sequence[Decimal], [Decimal(1)]),
    (Mapping[str, UUID], {"a": UUID(int=1)}),
    (Model, Model(n=3)),
    (list[Model], [Model(n=3)]),
    (Candle, CANDLE),
    (list[Candle], [CANDLE]),
    (dict[str, Candle | None], {"a": CANDLE, "b": None}),
    (Trade, TRADE),
    (list[Trade], [TRADE]),
    (Leg, Leg(TRADE)),
    (Trades, Trades([TRADE])),
    (Book, BOOK),
    (Strict, Strict(at=datetime(2026, 1, 1, tzinfo=UTC), ids={UUID(int=1)})),
    (Numbers, Numbers([1, 2])),
    (Any, {"anything": [1, None]}),
    (object, "anything"),
]


def through_json(value: Any) -> Any:
    return codec.decode(codec.encode(value))


def taking(hint: Any) -> Signature:
    def take(value: Any) -> Any: ...

    take.__annotations__ = {"value": hint, "return": hint}
    return Signature("take", take, take)


@pytest.mark.parametrize(("hint", "value"), VALUES, ids=lambda value: repr(value)[:40])
def test_values_come_out_as_they_went_in(hint: Any, value: Any) -> None:
    signature = taking(hint)
    arguments = signature.arguments((value,), {})
    assert arguments == {"value": value}
    typed = signature.typed(through_json(arguments))
    assert typed == {"value": value}
    assert type(typed["value"]) is type(value)
    result = signature.result(through_json(value))
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "7"),
        (int, True),
        (int, 7.5),
        (str, 7),
        (bool, 1),
        (datetime, "yesterday"),
        (Decimal, "many"),
        (Side, "hold"),
        (Order, {"id": 1}),
        (list[int], [1, "2"]),
        (Literal["a"], "b"),
        (Model, {"n": "x"}),
        (list[Candle], [{"openedAt": "yesterday", "c": "1"}]),
        (Annotated[int, msgspec.Meta(ge=0)], -1),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_does_not_fit_is_refused_when_it_is_enqueued_and_when_it_runs(hint: Any, value: Any) -> None:
    signature = taking(hint)
    with pytest.raises(InvalidStep, match=r"(?s)take: value: .*; nothing was written"):
        signature.arguments((value,), {})
    with pytest.raises(ValueError, match="value: "):
        signature.typed({"value": through_json(value)})


def test_a_value_without_a_json_form_is_refused_by_its_path() -> None:
    with pytest.raises(UnstorableValue, match=r'arguments\["value"\]\[1\]'):
        taking(list[Any]).arguments(([1, object()],), {})


@pytest.mark.parametrize(
    ("args", "kwargs", "blamed"),
    [
        ((), {}, "missing a required argument: 'number'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"number": 1}, "multiple values for argument 'number'"),
        ((1,), {"nuber": 1}, "unexpected keyword argument 'nuber'"),
    ],
)
def test_a_call_that_the_code_would_not_take_is_refused(args: Any, kwargs: Any, blamed: str) -> None:
    def take(number: int, *, times: int = 1) -> None: ...

    with pytest.raises(InvalidStep, match=blamed):
        Signature("take", take, take).arguments(args, kwargs)


def test_further_keywords_are_stored_beside_the_others() -> None:
    def take(number: int, **more: Any) -> None: ...

    signature = Signature("take", take, take)
    arguments = signature.arguments((1,), {"color": "red"})
    assert arguments == {"number": 1, "color": "red"}
    assert signature.typed(arguments) == arguments


def test_parameters_without_a_name_are_refused_when_the_job_is_defined() -> None:
    def many(*numbers: int) -> None: ...
    def nameless(number: int, /) -> None: ...

    for code in (many, nameless):
        with pytest.raises(StepwellError, match="arguments are stored by name"):
            Signature("take", code, code)


def test_an_annotation_that_cannot_be_resolved_does_not_cost_the_others_their_types(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def take(at: datetime, what: Unknown, n: int = 1) -> Decimal:
        return Decimal(n)

    signature = Signature("take", take, take)
    assert "its parameter what arrives as plain data" in caplog.text
    assert "cannot be converted to Unknown" in caplog.text
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert signature.typed({"at": moment.isoformat(), "what": [1]}) == {"at": moment, "what": [1]}
    assert signature.result("1.5") == Decimal("1.5")
    with pytest.raises(InvalidStep, match="n: Expected `int`"):
        signature.arguments((moment, None), {"n": "x"})


def test_a_model_is_stored_under_the_names_that_it_has_in_json() -> None:
    stored = {"openedAt": "2026-01-01T00:00:00Z", "c": "1.5", "parts": [{"n": 1}]}
    assert through_json(CANDLE) == stored


def test_a_model_is_stored_under_the_names_by_which_it_is_read() -> None:
    stored = {"p": "1.5", "s": 2, "venue": "here", "ask": 3, "bid": 4}
    assert through_json(TRADE) == stored
    assert through_json(BOOK)["sides"] == [{"name": "Ann"}]


def test_a_model_of_which_two_fields_are_read_from_the_same_place_is_refused_if_they_differ() -> None:
    with pytest.raises(UnstorableValue, match=r'value"\]\[0\]: two of its fields are read from the same place'):
        taking(list[Book]).arguments(([BOOK.model_copy(update={"taker": "Bob"})],), {})


@pytest.mark.parametrize("hint", [datetime | Decimal, Order | Point | Refund, list[Order | Refund], Model | Candle])
def test_types_that_json_cannot_tell_apart_stay_as_stored_with_one_warning(
    hint: Any, caplog: pytest.LogCaptureFixture
) -> None:
    signature = taking(hint)
    assert signature.typed({"value": "1.5"}) == {"value": "1.5"}
    assert signature.result({"a": 1}) == {"a": 1}
    parameter, result = [record.getMessage() for record in caplog.records if record.name == "stepwell.jobs"]
    assert parameter.startswith("job take: its parameter value arrives as plain data")
    assert result.startswith("job take: its result arrives as plain data")


def test_annotations_without_ambiguity_give_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    for hint, _ in VALUES:
        taking(hint)

    def bare(value, other=1, **more: Order | Refund): ...
    def ends() -> NoReturn:
        raise SystemExit

    Signature("bare", bare, bare)
    Signature("ends", ends, ends)
    taking(None)
    assert caplog.records == []


def test_no_result_is_none_whatever_the_annotation_says() -> None:
    assert taking(int).result(None) is None
    assert taking(None).result("something") == "something"


def test_a_result_that_is_not_what_the_annotation_says_is_given_as_stored_where_that_is_asked_for() -> None:
    signature = taking(int)
    with pytest.raises(ValueError, match="int"):
        signature.result("seven")
    assert signature.result_or_stored("seven") == "seven"
    assert signature.result_or_stored(7) == 7


def test_a_class_takes_what_its_constructor_takes_and_gives_what_compute_gives() -> None:
    @dataclass
    class Sync(Job):
        since: datetime
        side: Side = Side.BUY

        def compute(self) -> Decimal: ...  # type: ignore[empty-body]

    signature = Signature("sync", Sync, Sync.compute)
    assert signature.typed({"since": "2026-01-01T00:00:00Z", "side": "sell"}) == {
        "since": datetime(2026, 1, 1, tzinfo=UTC), "side": Side.SELL,
    }  # fmt: skip
    assert signature.result("1.5") == Decimal("1.5")


def test_coroutine_functions_are_recognized() -> None:
    async def coroutine() -> None: ...
    def plain() -> None: ...

    class Called:
        async def __call__(self) -> None: ...

    assert is_coroutine(coroutine)
    assert is_coroutine(functools.partial(coroutine))
    assert is_coroutine(Called())
    assert not is_coroutine(plain)
    assert not is_coroutine(Order)
