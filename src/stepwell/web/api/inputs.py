"""Inputs that many endpoints share, and how they are read from a request."""

from __future__ import annotations

from typing import Annotated, Any, Final, get_origin

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request

from stepwell.model import codec
from stepwell.model.errors import UnstorableValue
from stepwell.web.problems import HttpProblem

BIGGEST_ID: Final = 2**63 - 1
MOST_ROWS: Final = 200

Id = Annotated[int, Meta(ge=1, le=BIGGEST_ID)]
Limit = Annotated[int, Meta(ge=1, le=MOST_ROWS, description=f"Rows of the page, at most {MOST_ROWS}.")]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Why = Annotated[str, Meta(max_length=500, description="The reason, for the history.")] | None
StepKey = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[0-9A-Fa-f-]+$", description="An id or a uuid.")]
Uuid = Annotated[str, Meta(pattern="^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$")]


class Because(Struct, forbid_unknown_fields=True):
    """Why something is done."""

    why: Why = None


def read_path(request: Request, kind: Any) -> Any:
    return _converted(dict(request.path_params), kind, "path")


def read_query(request: Request, kind: Any) -> Any:
    """Every parameter must be known: a misspelt filter must not look like an empty list."""
    given = request.query_params
    fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}
    if unknown := sorted(set(given) - set(fields)):
        known = ", ".join(sorted(fields)) or "none"
        raise HttpProblem(422, f"unknown parameter {unknown[0][:100]!r}", f"parameters: {known}")
    values: dict[str, Any] = {}
    for name in given:
        several = given.getlist(name)
        if _is_list(fields[name].type):
            values[name] = several
        elif len(several) == 1:
            values[name] = several[0]
        else:
            raise HttpProblem(422, f"parameter {name!r} is given more than once")
    for name, value in values.items():
        if _is_flag(fields[name].type) and value not in ("true", "false"):  # msgspec also takes 0 and 1
            raise HttpProblem(422, f"parameter {name!r} is neither true nor false")
    found = _converted(values, kind, "query")
    for name in values:
        if getattr(found, fields[name].name) is None:  # msgspec takes the text `null` for it
            raise HttpProblem(422, f"parameter {name!r} has no value", "leave it out")
    return found


def read_body(content_type: str, body: bytes, kind: Any) -> Any:
    """A body of JSON; an empty one stands for an empty object."""
    if body and content_type.partition(";")[0].strip().lower() != "application/json":
        raise HttpProblem(415, "the body must be JSON", "send `Content-Type: application/json`")
    try:
        plain = msgspec.json.decode(body) if body else {}
        codec.encode(plain, "body")
        return msgspec.convert(plain, kind)
    except UnstorableValue as error:
        raise HttpProblem(422, str(error)) from error
    except msgspec.ValidationError as error:
        raise HttpProblem(422, f"body: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpProblem(400, f"the body is not valid JSON: {error}") from error


def _converted(values: dict[str, Any], kind: Any, what: str) -> Any:
    try:
        codec.encode(values, what)
        return msgspec.convert(values, kind, strict=False)
    except (msgspec.ValidationError, UnstorableValue) as error:
        raise HttpProblem(422, f"{what}: {error}") from error


def _is_flag(kind: Any) -> bool:
    return kind is bool or bool in getattr(kind, "__args__", ())


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list or any(get_origin(each) is list for each in getattr(kind, "__args__", ()))
