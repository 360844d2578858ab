"""The OpenAPI 3.1 document, generated from the table of endpoints and their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stepwell import __version__
from stepwell.web.api.endpoint import Endpoint
from stepwell.web.problems import CONTENT_TYPE, TITLES, Problem

_REF: Final = "#/components/schemas/{name}"
_DESCRIPTION: Final = (
    "Everything that the dashboard and the command line can do. Lists are pages: pass `next` as `before`. Errors are "
    "`application/problem+json`. A request that changes something may have an `Idempotency-Key`."
)
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A second request with the same key gets the answer of the first.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


def document(endpoints: Sequence[Endpoint], server: str) -> dict[str, Any]:
    """`server` is the path of the API, as clients see it."""
    types = [kind for endpoint in endpoints for kind in _types_of(endpoint)]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    by_type = iter(schemas[:-1])
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        used = {name: next(by_type) for name in _names_of(endpoint)}
        operation = _operation(endpoint, used, components, schemas[-1])
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stepwell", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": server}],
        "security": [{"bearer": []}],
        "tags": [{"name": name} for name in dict.fromkeys(endpoint.tag for endpoint in endpoints)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _names_of(endpoint: Endpoint) -> list[str]:
    return [name for name in ("path", "query", "body", "return") if name in endpoint.types]


def _types_of(endpoint: Endpoint) -> list[Any]:
    return [endpoint.types[name] for name in _names_of(endpoint)]


def _operation(
    endpoint: Endpoint, used: dict[str, Any], components: dict[str, Any], problem: dict[str, Any]
) -> dict[str, Any]:
    parameters = [
        *_parameters("path", used.get("path"), components),
        *_parameters("query", used.get("query"), components),
        *([] if endpoint.method == "GET" else [_KEY]),
    ]
    made: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": parameters,
        "responses": {
            str(endpoint.status): {
                "description": "Done",
                "content": {"application/json": {"schema": used["return"]}},
            },
            **{
                str(status): {
                    "description": TITLES[status],
                    "content": {CONTENT_TYPE: {"schema": problem}},
                }
                for status in _statuses(endpoint)
            },
        },
    }
    if endpoint.description:
        made["description"] = endpoint.description
    if "body" in used:
        made["requestBody"] = {
            "required": bool(_struct(used["body"], components).get("required")),
            "content": {"application/json": {"schema": used["body"]}},
        }
    if endpoint.role > 1:
        made["x-role"] = str(endpoint.role)
    return made


def _statuses(endpoint: Endpoint) -> list[int]:
    always = [401, 403, 421, 422, 429, 500, 503]
    if "path" in endpoint.types:
        always.append(404)
    if endpoint.method != "GET":
        always += [400, 404, 409, 413, 415]
    return sorted(set(always))


def _struct(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = components[re.sub(".*/", "", schema["$ref"])] if "$ref" in schema else schema
    return found


def _parameters(place: str, schema: dict[str, Any] | None, components: dict[str, Any]) -> list[dict[str, Any]]:
    if schema is None:
        return []
    struct = _struct(schema, components)
    required = struct.get("required", [])
    return [
        {
            "name": name,
            "in": place,
            "required": name in required,
            "schema": _without_null(of),
            **({"description": of["description"]} if "description" in of else {}),
        }
        for name, of in struct["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter of an address is left out, not null."""
    options = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default", "description")}
    default = {"default": schema["default"]} if schema.get("default") is not None else {}
    if "anyOf" in schema:
        return {**rest, **(options[0] if len(options) == 1 else {"anyOf": options}), **default}
    return {**rest, **default}
