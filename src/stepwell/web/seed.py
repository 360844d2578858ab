"""`/step-dispatcher/api`: the figures of the dashboard as JSON; `/step-dispatcher/toggle`: the breaker's switch."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from stepwell.look.figures import ClassFigures, HostFigures, Totals
from stepwell.operate.requests import Answer
from stepwell.web.api.endpoint import Call
from stepwell.web.api.inputs import Why, read_body
from stepwell.web.api.serving import JSON, answer_of, response_of
from stepwell.web.site import Site, visitor_of

TOTALS: Final = {
    "pending": "Pending",
    "dispatched": "Dispatched",
    "running": "Running",
    "completed": "Completed",
    "skipped": "Skipped",
    "failed": "Failed",
    "stopped": "Stopped",
    "cancelled": "Cancelled",
    "not_runnable": "NotRunnable",
}


class ToggleBody(msgspec.Struct, forbid_unknown_fields=True):
    """`enabled` must be a boolean: neither 1 nor "true"."""

    enabled: bool
    why: Why = None


def metrics(app: Any, version: str) -> dict[str, Any]:
    """The figures of the dashboard; docs/http-api.md describes the keys."""
    figures, state = app.figures, app.breaker.state()
    return {
        "can_dispatch_steps": state.dispatching,
        "breaker": {
            "changed_by": state.changed_by,
            "reason": state.reason,
            "changed_at": state.changed_at,
            "planned_end": state.planned_end,
        },
        "totals": _totals(figures.totals()),
        "classes": [_class(row) for row in figures.classes()],
        "hosts": [_host(row, figures.classes(row.host)) for row in figures.hosts()],
        "groups": {row.group: row.queued for row in figures.groups()},
        "at": app.database.now(),
        "version": version,
    }


def _totals(found: Totals) -> dict[str, int]:
    states = {name: found.states[state] for name, state in TOTALS.items()}
    return {
        **states,
        "child_pending": found.child_pending,
        "child_running": found.child_running,
        "throttled": found.throttled,
    }


def _class(row: ClassFigures) -> dict[str, Any]:
    return {
        "class": row.action,
        "running": row.running,
        "child_running": row.child_running,
        "throttled": row.throttled,
        "dispatched": row.dispatched,
        "pending": row.pending,
    }


def _host(row: HostFigures, classes: list[ClassFigures]) -> dict[str, Any]:
    return {
        "hostname": row.host,
        "alive": row.alive,
        "workers": row.workers,
        "slots": row.slots,
        "last_seen": row.last_seen,
        "running": row.running,
        "child_running": row.child_running,
        "dispatched": row.dispatched,
        "pending": row.pending,
        "throttled": row.throttled,
        "classes": [_class(each) for each in classes],
    }


def seed_routes(site: Site) -> list[BaseRoute]:
    """Relative to `/step-dispatcher`."""

    async def api(request: Request) -> Response:
        return response_of(await site.read(answer_of, 200, lambda: metrics(site.app, site.version)))

    async def toggle(request: Request) -> Response:
        body = await request.body()
        given: ToggleBody = read_body(request.headers.get("content-type", JSON), body, ToggleBody)
        who = Call(site, visitor_of(request)).who

        def switch() -> dict[str, Any]:
            breaker = site.app.breaker
            (breaker.resume if given.enabled else breaker.pause)(who, given.why)
            return {"enabled": breaker.state().dispatching}

        answer: Answer = await site.act(answer_of, 200, switch)
        return response_of(answer)

    return [Route("/api", api, methods=["GET"]), Route("/toggle", toggle, methods=["POST"])]
