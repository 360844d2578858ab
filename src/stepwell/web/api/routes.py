"""All routes of the API: those of the table, its OpenAPI document, and the stream of changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final

import msgspec
from anyio import to_thread
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


@lru_cache(maxsize=8)
def _document(root: str) -> bytes:
    """Made once for each place where the API is mounted."""
    return msgspec.json.encode(document(ENDPOINTS, root))


def api_routes(site: Site, has_ended: Callable[[str], Awaitable[bool]]) -> list[BaseRoute]:
    """Relative to `/api/v1`."""

    async def openapi(request: Request) -> Response:
        text = await to_thread.run_sync(_document, request.scope["root_path"])
        return Response(text, media_type="application/json")

    return [
        Route("/openapi.json", openapi, methods=["GET"]),
        Streams(site, has_ended).route(),
        *routes_of(site, ENDPOINTS),
    ]
