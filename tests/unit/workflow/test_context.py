"""The context: checked at the start, with its defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from stepwell import InvalidRequest
from stepwell.workflow.declare.context import context_of


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class AsDataclass:
    id: int
    lines: list[Line] = field(default_factory=list)
    gift: bool = False


class AsStruct(msgspec.Struct, omit_defaults=True):
    id: int
    lines: list[Line] = msgspec.field(default_factory=list)
    gift: bool = False


class AsModel(pydantic.BaseModel):
    id: int
    lines: list[Line] = []
    gift: bool = False


class Holder(msgspec.Struct):
    model: AsModel


class AsTyped(TypedDict):
    id: int
    gift: NotRequired[bool]


SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "default": []},
        "gift": {"type": "boolean", "default": False},
    },
    "required": ["id"],
    "$defs": {"line": {"properties": {"sku": {"type": "string"}, "count": {"default": 1}}, "required": ["sku"]}},
}
FORMS = [AsDataclass, AsStruct, AsModel, SCHEMA]


@pytest.mark.parametrize("form", FORMS)
def test_defaults_are_filled_in_at_every_depth(form: Any) -> None:
    stored = context_of(form).checked({"id": 7, "lines": [{"sku": "a"}]}, "w")
    assert stored == {"id": 7, "lines": [{"sku": "a", "count": 1}], "gift": False}
    assert context_of(form).checked({"id": 7}, "w") == {"id": 7, "lines": [], "gift": False}


@pytest.mark.parametrize("form", [AsDataclass, AsStruct, AsModel])
def test_an_instance_is_as_good_as_its_data(form: Any) -> None:
    assert context_of(form).checked(form(id=7, gift=True), "w") == {"id": 7, "lines": [], "gift": True}


def test_a_typed_dict_is_a_model() -> None:
    assert context_of(AsTyped).checked({"id": 1}, "w") == {"id": 1}


@pytest.mark.parametrize("form", [*FORMS, AsTyped])
@pytest.mark.parametrize("value", [{}, {"id": "seven"}, [], 3])
def test_an_invalid_context_is_refused(form: Any, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^shop\.fulfil: context.*nothing was started$"):
        context_of(form).checked(value, "shop.fulfil")


@pytest.mark.parametrize("form", FORMS)
def test_an_error_names_its_path(form: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"context\.lines\[1\]\.sku: "):
        context_of(form).checked({"id": 1, "lines": [{"sku": "a"}, {"sku": 3}]}, "w")


def test_every_error_of_a_json_schema_is_reported() -> None:
    with pytest.raises(InvalidRequest) as error:
        context_of(SCHEMA).checked({"gift": 3, "lines": 4}, "w")
    assert all(part in str(error.value) for part in ("'id' is a required", "context.gift", "context.lines"))


def test_a_default_that_is_not_valid_is_an_error_of_its_path() -> None:
    with pytest.raises(InvalidRequest, match=r"context\.n"):
        context_of({"properties": {"n": {"type": "integer", "default": "one"}}}).checked({}, "w")


def test_a_default_is_not_shared_between_requests() -> None:
    context = context_of({"properties": {"tags": {"default": []}}})
    context.checked({}, "w")["tags"].append(1)
    assert context.checked({}, "w") == {"tags": []}


def test_a_reference_to_another_document_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "schema.json"
    other.write_text("{}")
    with pytest.raises(InvalidRequest, match="not part of it"):
        context_of({"$ref": other.as_uri()}).checked({}, "w")


def test_what_json_cannot_store_is_refused() -> None:
    for value in ({"n": float("nan")}, {"text": "\0"}, {"what": object()}):
        with pytest.raises(InvalidRequest, match="nothing was started"):
            context_of(None).checked(value, "w")


def test_without_a_declaration_any_json_is_a_context() -> None:
    assert context_of(None).checked(None, "w") == {}
    assert context_of(None).checked([1, "a"], "w") == [1, "a"]
    assert context_of(None).checked({"day": date(2026, 1, 2)}, "w") == {"day": "2026-01-02"}


def test_a_docstring_does_not_change_the_schema() -> None:
    def made(text: str) -> Any:
        @dataclass
        class Order:
            title: int
            description: str = "x"

        Order.__doc__ = text
        return Order

    one, two = context_of(made("one")).schema, context_of(made("two")).schema
    assert one == two
    assert one is not None
    assert set(one["properties"]) == {"title", "description"}


def test_a_pydantic_model_inside_another_model_has_its_fields() -> None:
    context = context_of(Holder)
    assert context.checked({"model": {"id": 1}}, "w") == {"model": {"id": 1, "lines": [], "gift": False}}
    assert context.schema is not None
    from stepwell.workflow.schemas import problem_of_schema, problems_of_value, unknown_key

    assert problem_of_schema(context.schema) is None
    assert problems_of_value(context.schema, {"model": {"id": 1, "lines": [{"sku": "a"}]}}) == []
    assert unknown_key(context.schema, ("model", "idd")) is not None


@pytest.mark.parametrize("model", [AsDataclass, AsStruct, AsTyped])
def test_a_field_that_the_model_does_not_have_is_refused_with_a_suggestion(model: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"context\.gfit: unknown field; did you mean 'gift'\?"):
        context_of(model).checked({"id": 1, "gfit": True}, "shop")


def test_a_pydantic_model_decides_for_itself_about_unknown_fields() -> None:
    assert context_of(AsModel).checked({"id": 1, "gfit": True}, "shop") == {"id": 1, "lines": [], "gift": False}
