"""The circuit breaker, and whether workers can be restarted."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from stepwell.model.times import MAX_SECONDS
from stepwell.web.api.endpoint import Call, Table
from stepwell.web.api.inputs import Because, Name

table = Table("breaker")


class BreakerView(Struct):
    """Whether steps are dispatched; who set this, why and when, and until when a pause is planned."""

    dispatching: bool
    changed_by: str | None
    reason: str | None
    changed_at: datetime | None
    planned_end: datetime | None


class PauseBody(Because, forbid_unknown_fields=True):
    """Why dispatching stops, and for how long it is planned. It does not resume by itself."""

    planned_seconds: Annotated[float, Meta(gt=0, le=MAX_SECONDS)] | None = None


class SafetyQuery(Struct):
    group: Name | None = None


class SafetyView(Struct):
    """Whether workers can be restarted now, and what prevents it."""

    safe: bool
    dispatching: bool
    dispatched: int
    running: int
    summary: str


def breaker_view(call: Call) -> BreakerView:
    state = call.app.breaker.state()
    return BreakerView(state.dispatching, state.changed_by, state.reason, state.changed_at, state.planned_end)


@table.get("/breaker", "Whether steps are dispatched")
def _show(call: Call) -> BreakerView:
    return breaker_view(call)


@table.post("/breaker/pause", "Stop dispatching Pending steps; everything else continues")
def _pause(call: Call, body: PauseBody) -> BreakerView:
    call.app.breaker.pause(call.who, body.why, planned=body.planned_seconds)
    return breaker_view(call)


@table.post("/breaker/resume", "Dispatch again")
def _resume(call: Call, body: Because) -> BreakerView:
    call.app.breaker.resume(call.who, body.why)
    return breaker_view(call)


@table.get("/safe-to-restart", "Whether workers can be restarted now")
def _safety(call: Call, query: SafetyQuery) -> SafetyView:
    found = call.app.breaker.safe_to_restart(query.group)
    return SafetyView(found.safe, found.dispatching, found.dispatched, found.running, str(found))
