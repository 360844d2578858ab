"""Inputs that many endpoints share, and how they are read from a request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request

from stepwell.model import codec
from stepwell.model.errors import UnstorableValue
from stepwell.model.ids import LARGEST_ID
from stepwell.web.problems import HttpProblem

MOST_ROWS: Final = 200
_WHOLE: Final = re.compile(r"-?[0-9]+")
_MOMENT: Final = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})", re.I)

Id = Annotated[int, Meta(ge=1, le=LARGEST_ID)]
Limit = Annotated[int, Meta(ge=1, le=MOST_ROWS, description=f"Rows of the page, at most {MOST_ROWS}.")]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Why = Annotated[str, Meta(max_length=500, description="The reason, for the history.")] | None
# `$` also matches before a line break at the end, in Python but not in other languages.
_END: Final = r"$(?!\n)"
StepKey = Annotated[
    str, Meta(min_length=1, max_length=64, pattern=f"^[0-9A-Fa-f-]+{_END}", description="An id or a uuid.")
]
Uuid = Annotated[str, Meta(pattern="^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}" + _END)]


class Because(Struct, forbid_unknown_fields=True):
    """Why something is done."""

    why: Why = None


def read_path(request: Request, kind: Any) -> Any:
    values = dict(request.path_params)
    _check_texts(values, {each.encode_name: each for each in msgspec.structs.fields(kind)})
    return _converted(values, kind, "path")


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
    _check_texts(values, fields)
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
        found = msgspec.convert(plain, kind)
        check_moments(found)
        return found
    except UnstorableValue as error:
        raise HttpProblem(422, str(error)) from error
    except msgspec.ValidationError as error:
        raise HttpProblem(422, f"body: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpProblem(400, f"the body is not valid JSON: {error}") from error


def _check_texts(values: dict[str, Any], fields: dict[str, Any]) -> None:
    """Numbers and times as the document describes them: msgspec also takes `1e2`, and seconds for a time."""
    for name, value in values.items():
        kinds = set(_atoms(fields[name].type))
        if int in kinds and not _WHOLE.fullmatch(value):
            raise HttpProblem(422, f"parameter {name!r} is not a whole number")
        if datetime in kinds and not _is_moment(value):
            raise HttpProblem(422, f"parameter {name!r} is not a time", "write it as 2026-01-31T14:07:12Z")


def check_moments(body: Any) -> None:
    """The times in a body must exist in UTC."""
    for name in msgspec.structs.asdict(body) if isinstance(body, Struct) else ():
        value = getattr(body, name)
        if isinstance(value, datetime) and not _is_moment(
            value.isoformat() if value.tzinfo else f"{value.isoformat()}Z"
        ):
            raise HttpProblem(422, f"body: {name} is out of range", "write it as 2026-01-31T14:07:12Z")


def _is_moment(text: str) -> bool:
    """Whether it is a time of RFC 3339 that exists in UTC."""
    try:
        return _MOMENT.fullmatch(text) is not None and datetime.fromisoformat(text.upper()).astimezone(UTC) is not None
    except (ValueError, OverflowError):
        return False


def _atoms(kind: Any) -> Iterator[Any]:
    """The types of a union, without what is annotated."""
    if get_origin(kind) is Annotated:
        yield from _atoms(kind.__origin__)
    elif isinstance(kind, UnionType) or get_origin(kind) is Union:
        for each in get_args(kind):
            yield from _atoms(each)
    else:
        yield kind


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
