"""The OpenAPI document: complete, valid, and the same on every machine."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from starlette.routing import Mount, Route

from stepwell import Stepwell
from stepwell.web import Role
from stepwell.web.api.routes import ENDPOINTS
from tests.conformance.web.support import client, web

pytestmark = pytest.mark.one_database


@pytest.fixture
def document(app: Stepwell) -> dict[str, Any]:
    found: dict[str, Any] = client(web(app), Role.READ).get("/api/v1/openapi.json").json()
    return found


def test_every_route_of_the_api_is_described_with_its_methods(app: Stepwell, document: dict[str, Any]) -> None:
    (api,) = [route for route in web(app).router.routes if isinstance(route, Mount) and route.path == "/api/v1"]
    served = {
        (route.path, method)
        for route in api.routes or []
        if isinstance(route, Route) and route.path not in ("/openapi.json", "/events")
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    assert served == described
    assert len(described) == len(ENDPOINTS)


def test_it_is_of_version_3_1_and_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    schemas = document["components"]["schemas"]

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                assert value["$ref"].removeprefix("#/components/schemas/") in schemas
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(document)
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_operation_has_a_name_a_summary_typed_answers_and_problems(document: dict[str, Any]) -> None:
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        assert operation["summary"]
        answers = operation["responses"]
        (good,) = [answer for status, answer in answers.items() if status.startswith("2")]
        assert "schema" in good["content"]["application/json"]
        assert "application/problem+json" in answers["401"]["content"]


def test_what_changes_something_says_which_role_it_needs_and_takes_a_key(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            keys = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "header"]
            assert (operation.get("x-role"), keys) == (
                (None, []) if method == "get" else (operation["x-role"], ["Idempotency-Key"])
            ), path
