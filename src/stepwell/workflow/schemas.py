"""JSON schemas: of models, their defaults, and validation with every error by its path."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

_SHOWN_ERRORS: Final = 10
_PLACES_OF_SCHEMAS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def schema_of(model: Any) -> dict[str, Any]:
    """The JSON schema of a type, without titles and descriptions: a docstring does not change a template.

    >>> class Order(msgspec.Struct):
    ...     '''An order.'''
    ...     id: int
    ...     gift: bool = False
    >>> schema_of(Order)["properties"], schema_of(Order)["required"]
    ({'id': {'type': 'integer'}, 'gift': {'type': 'boolean', 'default': False}}, ['id'])
    """
    definitions: dict[str, Any] = {}

    def of_other_type(kind: Any) -> dict[str, Any]:
        if not hasattr(kind, "model_json_schema"):
            return {}
        schema = dict(kind.model_json_schema())
        definitions.update(schema.pop("$defs", {}))
        return schema

    if hasattr(model, "model_json_schema"):
        schema = of_other_type(model)
    else:
        schema = msgspec.json.schema(model, schema_hook=of_other_type)
    if definitions:
        schema["$defs"] = {**schema.get("$defs", {}), **definitions}
    bare: dict[str, Any] = _without_notes(msgspec.to_builtins(schema))
    return _inlined(bare)


def _without_notes(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_notes(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for key, value in schema.items():
        if key in _PLACES_OF_SCHEMAS and isinstance(value, dict):
            kept[key] = {name: _without_notes(inner) for name, inner in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            kept[key] = value
        elif key not in ("title", "description"):
            kept[key] = _without_notes(value)
    return kept


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that only refers to one of its definitions, as that definition (unless others refer to it, too)."""
    if set(schema) != {"$ref", "$defs"}:
        return schema
    name = schema["$ref"].rpartition("/")[2]
    others = {key: value for key, value in schema["$defs"].items() if key != name}
    if name not in schema["$defs"] or f'"{schema["$ref"]}"'.encode() in msgspec.json.encode(
        [others, schema["$defs"][name]]
    ):
        return schema
    return {**schema["$defs"][name], **({"$defs": others} if others else {})}


def problem_of_schema(schema: Any) -> str | None:
    """What is wrong with a schema itself."""
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for

    if not isinstance(schema, dict):
        return f"a JSON schema is a mapping, not {type(schema).__name__}"
    try:
        validator_for(schema, default=_default_validator()).check_schema(schema)
    except SchemaError as error:
        return f"not a valid JSON schema: {_path(error.absolute_path)}{error.message}"
    return None


def problems_of_value(schema: dict[str, Any], value: Any, what: str = "context") -> list[str]:
    """Why a value does not match a schema, each reason with its path.

    >>> problems_of_value({"properties": {"n": {"type": "integer"}}, "required": ["m"]}, {"n": "1"})
    ["context: 'm' is a required property", "context.n: '1' is not of type 'integer'"]
    """
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # A registry of its own: a reference to another document is an error, not a download.
    validator = validator_for(schema, default=_default_validator())(schema, registry=Registry())
    try:
        errors = sorted(validator.iter_errors(value), key=lambda error: [str(key) for key in error.absolute_path])
    except Unresolvable as error:
        return [f"{what}: the schema refers to {error.ref!r}, which is not part of it"]
    # Of alternatives (anyOf), the error of the one that fits best is the useful one.
    errors = [best_match([error]) or error for error in errors]
    found = [f"{what}{_path(error.absolute_path).removesuffix(': ')}: {error.message}" for error in errors]
    more = len(found) - _SHOWN_ERRORS
    return found if more <= 0 else [*found[:_SHOWN_ERRORS], f"{what}: … and {more} more"]


def _default_validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator


def _path(keys: Any) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return f"{text}: " if text else ""


def with_defaults(schema: Any, value: Any) -> Any:
    """A value with the defaults of its schema filled in, where it is certain which schema applies.

    >>> schema = {"properties": {"gift": {"default": False}, "to": {"properties": {"land": {"default": "fr"}}}}}
    >>> with_defaults(schema, {"to": {}})
    {'to': {'land': 'fr'}, 'gift': False}
    """
    return _filled(schema, schema, value, 0)


def _filled(root: Any, schema: Any, value: Any, depth: int) -> Any:
    if depth > 64:
        return value
    for part in _parts(root, schema):
        if isinstance(value, dict):
            properties = part.get("properties")
            properties = properties if isinstance(properties, dict) else {}
            value = {key: _filled(root, properties.get(key, {}), item, depth + 1) for key, item in value.items()}
            for key, inner in properties.items():
                if key not in value and (default := _default(root, inner)) is not _NOTHING:
                    value[key] = _filled(root, inner, copy.deepcopy(default), depth + 1)
        elif isinstance(value, list) and isinstance(part.get("items"), dict):
            value = [_filled(root, part["items"], item, depth + 1) for item in value]
    return value


_NOTHING: Final = object()


def _default(root: Any, schema: Any) -> Any:
    for part in _parts(root, schema):
        if "default" in part:
            return part["default"]
    return _NOTHING


def _parts(root: Any, schema: Any) -> Iterator[Mapping[str, Any]]:
    """A schema with all that certainly applies together with it: what it refers to, and `allOf`; also `T | None`."""
    waiting, seen = [schema], 0
    while waiting and seen < 100:
        part, seen = waiting.pop(), seen + 1
        if not isinstance(part, dict):
            continue
        yield part
        if isinstance(part.get("$ref"), str):
            waiting.append(_referenced(root, part["$ref"]))
        if isinstance(part.get("allOf"), list):
            waiting.extend(part["allOf"])
        for choice in (part.get("anyOf"), part.get("oneOf")):
            others = [each for each in choice if each != {"type": "null"}] if isinstance(choice, list) else []
            if len(others) == 1:
                waiting.extend(others)


def _referenced(root: Any, reference: str) -> Any:
    if reference.startswith("#"):
        for key in filter(None, reference[1:].split("/")):
            key = key.replace("~1", "/").replace("~0", "~")
            root = root.get(key) if isinstance(root, dict) else None
        return root
    return None


def fields_in(schema: Any) -> dict[str, Any] | None:
    """The fields of an object; None if the schema does not name them, or allows others.

    >>> fields_in({"properties": {"id": {}}}), fields_in({"type": "object"})
    ({'id': {}}, None)
    """
    return _fields(schema, schema)


def _fields(root: Any, schema: Any) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for part in _parts(root, schema):
        if part.get("additionalProperties") or part.get("patternProperties"):
            return None
        if any(isinstance(each, list) and len(each) > 1 for each in (part.get("anyOf"), part.get("oneOf"))):
            others = [each for key in ("anyOf", "oneOf") for each in part.get(key, ()) if each != {"type": "null"}]
            if len(others) > 1:
                return None
        if isinstance(part.get("properties"), dict):
            found.update(part["properties"])
    return found or None


def unknown_key(schema: Any, keys: tuple[str, ...]) -> tuple[int, list[str]] | None:
    """The first key of a path that the schema excludes, by its position, with the keys that there are; else None.

    >>> unknown_key({"properties": {"to": {"properties": {"land": {}}}}}, ("to", "lnd"))
    (1, ['land'])
    """
    root = schema
    for position, key in enumerate(keys):
        fields = _fields(root, schema)
        if fields is None:
            return None
        if key not in fields:
            return position, list(fields)
        schema = fields[key]
    return None


_JSON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def other_type(schema: Any, keys: tuple[str, ...], value: Any) -> str | None:
    """The type that a schema demands at a path, if the value is certainly not of it.

    >>> other_type({"properties": {"gift": {"type": "boolean"}}}, ("gift",), "on")
    'a boolean'
    """
    root = schema
    for key in keys:
        fields = _fields(root, schema)
        if fields is None or key not in fields:
            return None
        schema = fields[key]
    if value is None or not isinstance(schema, dict):
        return None  # a missing value is null
    for part in [schema, _referenced(root, schema["$ref"]) if isinstance(schema.get("$ref"), str) else None]:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in _JSON_TYPES:
            fits = isinstance(value, _JSON_TYPES[kind]) and (not isinstance(value, bool) or kind == "boolean")
            return None if fits else f"{'an' if kind[0] in 'aio' else 'a'} {kind}"
    return None
