"""All routes of the API: those of the table, its OpenAPI document, and the stream of changes."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from stepwell.web.api import breaker, operations, overview, processes, schedules, steps, workflows
from stepwell.web.api.openapi import document
from stepwell.web.api.serving import routes_of
from stepwell.web.api.stream import Streams
from stepwell.web.site import Site

TABLES: Final = (
    steps.table,
    workflows.table,
    schedules.table,
    processes.table,
    overview.table,
    breaker.table,
    operations.table,
)
ENDPOINTS: Final = [endpoint for table in TABLES for endpoint in table.endpoints]


def api_routes(site: Site) -> list[BaseRoute]:
    """Relative to `/api/v1`."""

    async def openapi(request: Request) -> Response:
        described = document(ENDPOINTS, request.scope["root_path"])
        return Response(msgspec.json.encode(described), media_type="application/json")

    return [
        Route("/openapi.json", openapi, methods=["GET"]),
        Streams(site).route(),
        *routes_of(site, ENDPOINTS),
    ]
