"""The context of a workflow: a model or a JSON schema, checked at the start, with its defaults filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from stepwell.define.signature import convert, decodable
from stepwell.model import codec
from stepwell.model.errors import InvalidRequest, UnstorableValue
from stepwell.workflow import schemas
from stepwell.workflow.declare.annotations import UNKNOWN
from stepwell.workflow.declare.words import shown, suggestion

_PLACE: Final = re.compile(r" - at `\$([^`]*)`$")


@dataclass(frozen=True, slots=True)
class Context:
    """What `context=` declares; `type` is the model, if it is one."""

    schema: dict[str, Any] | None = None
    type: Any = UNKNOWN
    problem: str | None = None

    @property
    def fields(self) -> dict[str, Any] | None:
        """Its fields by name; None if they are not known."""
        return None if self.schema is None else schemas.fields_in(self.schema)

    def checked(self, value: Any, whose: str) -> Any:
        """The value as JSON-compatible data, with defaults; raises InvalidRequest."""
        try:
            given = codec.decode(codec.encode({} if value is None else value, "context"))
            stored = self._stored(given)
            codec.encode(stored, "context")
        except UnstorableValue as error:
            raise InvalidRequest(f"{whose}: {error}; nothing was started") from error
        except (ValueError, TypeError) as error:
            raise InvalidRequest(f"{whose}: {'; '.join(_messages(error))}; nothing was started") from error
        return stored

    def _stored(self, given: Any) -> Any:
        if self.schema is None:
            return given
        if self.type is not UNKNOWN:
            self._refuse_unknown(given)
            given = codec.decode(codec.encode(convert(given, self.type), "context"))
            return schemas.with_defaults(self.schema, given)  # a model may be written without them
        filled = schemas.with_defaults(self.schema, given)
        if found := schemas.problems_of_value(self.schema, filled):
            raise ValueError("; ".join(found))
        return filled

    def _refuse_unknown(self, given: Any) -> None:
        """Decoding would drop them silently. A pydantic model decides for itself (`extra`)."""
        fields = self.fields
        if fields is None or not isinstance(given, dict) or hasattr(self.type, "model_fields"):
            return
        if unknown := [name for name in given if name not in fields]:
            hints = (f"context.{name}: unknown field; {suggestion(name, fields, 'fields')}" for name in unknown)
            raise ValueError("; ".join(hints))


def context_of(declared: Any, what: str = "context") -> Context:
    """What `context=` (or `result=` of a gate) means.

    >>> context_of({"properties": {"gift": {"default": False}}}).checked({}, "shop.fulfil")
    {'gift': False}
    """
    if declared is None or declared is Any:
        return Context()
    if isinstance(declared, dict):
        try:
            schema = codec.decode(codec.encode(declared, what))
        except UnstorableValue as error:
            return Context(problem=str(error))
        if (problem := schemas.problem_of_schema(schema)) is not None:
            return Context(problem=f"{what}: {problem}")
        return Context(schema)
    if decodable(declared) is Any:
        return Context(
            problem=f"{what} is {shown(declared)}, which cannot be decoded from JSON; use a dataclass, a msgspec "
            "struct, a TypedDict, a pydantic model or a JSON schema (a dict)"
        )
    try:
        return Context(schemas.schema_of(declared), declared)
    except Exception as error:  # whatever a model's own schema raises
        return Context(problem=f"{what}: no JSON schema can be made of {shown(declared)}: {error}")


def _messages(error: Exception) -> list[str]:
    """What is wrong, each with its path; the errors of pydantic are several in one."""
    of_pydantic: Any = next((each for each in (error, error.__cause__) if hasattr(each, "errors")), None)
    if of_pydantic is None:
        return [_with_path(str(error))]
    around = _PLACE.search(str(error))
    start = f"context{'' if around is None else around[1]}"
    return [f"{start}{_steps_of(each['loc'])}: {each['msg']}" for each in of_pydantic.errors()]


def _steps_of(location: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)


def _with_path(message: str) -> str:
    """An error of a model, with its path first: `context.lines[0]: Expected int`.

    >>> _with_path("Expected `int`, got `str` - at `$.lines[0]`")
    'context.lines[0]: Expected `int`, got `str`'
    """
    if message.startswith("context"):
        return message
    place = _PLACE.search(message)
    return f"context: {message}" if place is None else f"context{place[1]}: {message[: place.start()]}"
