"""Schedules: their definitions, slots, ledger and executions. Defining them needs the role admin."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from stepwell.schedule.alarms import Missed
from stepwell.schedule.backfilling import Backfill
from stepwell.schedule.cron import CronExpression
from stepwell.schedule.definition import Definition, Misfire, Target
from stepwell.schedule.schedule import Edit, Schedule
from stepwell.store.engine.executions import ExecutionRow
from stepwell.store.engine.schedules import ChangeRow
from stepwell.store.engine.slots import SlotRow
from stepwell.web.api.endpoint import Call, Table
from stepwell.web.api.inputs import Because, Id, Limit, Name, Why
from stepwell.web.api.views import ItemsPage, page
from stepwell.web.visitor import Role

table = Table("schedules")

Moment = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Time = Annotated[float, Meta(ge=0, le=3_155_760_000)]


class SchedulePath(Struct):
    name: Name


class NewScheduleBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A schedule to create."""

    name: Name
    expression: Name
    handler: Name
    zone: Name = "UTC"
    target: Target = "job"
    params: dict[str, Any] = {}
    description: str | None = None
    enabled: bool = True
    max_retry: Count = 3
    timeout_seconds: Count = 3600
    misfire: Misfire = "once"
    misfire_limit: Count = 100
    start_deadline: Time | None = None
    allow_overlap: bool = True
    jitter: Time = 0.0
    expect_within: Time | None = None
    why: Why = None


class EditBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields to change."""

    expression: Name | UnsetType = UNSET
    handler: Name | UnsetType = UNSET
    zone: Name | UnsetType = UNSET
    target: Target | UnsetType = UNSET
    params: dict[str, Any] | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    max_retry: Count | UnsetType = UNSET
    timeout_seconds: Count | UnsetType = UNSET
    misfire: Misfire | UnsetType = UNSET
    misfire_limit: Count | UnsetType = UNSET
    start_deadline: Time | UnsetType | None = UNSET
    allow_overlap: bool | UnsetType = UNSET
    jitter: Time | UnsetType = UNSET
    expect_within: Time | UnsetType | None = UNSET
    why: Why = None


class PreviewQuery(Struct):
    preview: Annotated[bool, Meta(description="Only say what would happen.")] = False


class DeleteQuery(Struct):
    force: Annotated[bool, Meta(description="Cancel live executions.")] = False
    why: Why = None


class ResetBody(Struct, forbid_unknown_fields=True):
    """The fields whose overrides are removed; none: all of them."""

    fields: list[Name] = []
    why: Why = None


class BackfillBody(Struct, forbid_unknown_fields=True):
    """The period whose slots are run, both ends included."""

    first: Moment
    last: Moment
    preview: bool = False
    why: Why = None


class ExecutionsQuery(Struct):
    status: Literal["PENDING", "RUNNING", "SUCCESS", "FAILED", "TIMEOUT"] | None = None
    before: Id | None = None
    limit: Limit = 50


class SlotsQuery(Struct):
    """A period; without one, the newest rows."""

    first: Moment | None = None
    last: Moment | None = None
    limit: Limit = 50


class NextQuery(Struct):
    count: Annotated[int, Meta(ge=1, le=100)] = 5


class Deleted(Struct):
    name: str


class ScheduleChange(Struct, kw_only=True):
    """One change of a definition."""

    kind: str
    actor: str
    reason: str | None
    changed_at: datetime
    before: Any
    after: Any


def _shown(call: Call, found: Schedule) -> Schedule:
    declared = None if found.declared is None else _shown_definition(call, found.declared)
    return structs.replace(found, definition=_shown_definition(call, found.definition), declared=declared)


def _shown_definition(call: Call, found: Definition) -> Definition:
    return structs.replace(found, params=call.redaction.value(found.params))


def _shown_execution(call: Call, row: ExecutionRow) -> ExecutionRow:
    redact = call.redaction
    return structs.replace(
        row,
        error_message=redact.text(row.error_message),
        result=_shown_json(call, row.result),
        reason=redact.text(row.reason),
    )


def _shown_json(call: Call, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return msgspec.json.encode(call.redaction.value(msgspec.json.decode(text))).decode()
    except msgspec.DecodeError:
        return call.redaction.text(text)


@table.get("/schedules", "List schedules")
def _list(call: Call) -> list[Schedule]:
    return [_shown(call, found) for found in call.app.schedules.list()]


@table.get("/overdue-schedules", "Schedules whose slot has not succeeded in time")
def _overdue(call: Call) -> list[Missed]:
    return call.app.schedules.overdue()


@table.post("/schedules", "Create a schedule", role=Role.ADMIN, status=201)
def _create(call: Call, body: NewScheduleBody) -> Schedule:
    given = structs.asdict(body)
    name, expression, handler = given.pop("name"), given.pop("expression"), given.pop("handler")
    why, tz, params = given.pop("why"), given.pop("zone"), given.pop("params")
    call.redaction.refuse_hidden(params, "params")
    made = call.app.schedules.create(name, expression, handler, params, who=call.who, why=why, tz=tz, **given)
    return _shown(call, made)


@table.get("/schedules/{name}", "Show a schedule")
def _show(call: Call, path: SchedulePath) -> Schedule:
    return _shown(call, call.app.schedules.get(path.name))


@table.patch("/schedules/{name}", "Change a schedule, and show its next slots before and after")
def _edit(call: Call, path: SchedulePath, query: PreviewQuery, body: EditBody) -> Edit:
    given = {name: value for name, value in structs.asdict(body).items() if value is not UNSET and name != "why"}
    if "params" in given:
        stored = call.app.schedules.get(path.name).definition.params
        given["params"] = call.redaction.restored(given["params"], stored)
        call.redaction.refuse_hidden(given["params"], "params")
    done = call.app.schedules.edit(path.name, who=call.who, why=body.why, preview=query.preview, **given)
    return structs.replace(done, schedule=_shown(call, done.schedule))


@table.delete("/schedules/{name}", "Delete a schedule with its executions and its ledger")
def _delete(call: Call, path: SchedulePath, query: DeleteQuery) -> Deleted:
    call.app.schedules.delete(path.name, who=call.who, why=query.why, force=query.force)
    return Deleted(path.name)


@table.post("/schedules/{name}/enable", "Enable a schedule")
def _enable(call: Call, path: SchedulePath, body: Because) -> Schedule:
    found = call.app.schedules.enable(path.name, who=call.who, why=body.why)
    return _shown(call, found)


@table.post("/schedules/{name}/disable", "Disable a schedule")
def _disable(call: Call, path: SchedulePath, body: Because) -> Schedule:
    found = call.app.schedules.disable(path.name, who=call.who, why=body.why)
    return _shown(call, found)


@table.post("/schedules/{name}/reset", "Remove overrides: the values of the code apply again", role=Role.ADMIN)
def _reset(call: Call, path: SchedulePath, body: ResetBody) -> Schedule:
    found = call.app.schedules.reset(path.name, *body.fields, who=call.who, why=body.why)
    return _shown(call, found)


@table.post("/schedules/{name}/run", "Run a schedule now, independent of its slots", status=201)
def _run_now(call: Call, path: SchedulePath, body: Because) -> ExecutionRow:
    made = call.app.schedules.run_now(path.name, who=call.who, why=body.why)
    return _shown_execution(call, made)


@table.post("/schedules/{name}/backfill", "Run the slots of a period that have not succeeded")
def _backfill(call: Call, path: SchedulePath, body: BackfillBody) -> Backfill:
    return call.app.schedules.backfill(
        path.name, body.first, body.last, who=call.who, why=body.why, preview=body.preview
    )


@table.get("/schedules/{name}/next", "The next slots")
def _next(call: Call, path: SchedulePath, query: NextQuery) -> list[datetime]:
    return call.app.schedules.next(path.name, query.count)


@table.get("/schedules/{name}/slots", "The slot ledger: what came of every slot")
def _slots(call: Call, path: SchedulePath, query: SlotsQuery) -> list[SlotRow]:
    return call.app.schedules.slots(path.name, first=query.first, last=query.last, limit=query.limit)


@table.get("/schedules/{name}/executions", "Executions, newest first")
def _executions(call: Call, path: SchedulePath, query: ExecutionsQuery) -> ItemsPage[ExecutionRow]:
    rows = call.app.schedules.executions(path.name, status=query.status, before=query.before, limit=query.limit)
    return page([_shown_execution(call, row) for row in rows], query.limit)


@table.get("/schedules/{name}/changes", "Every change of the definition")
def _changes(call: Call, path: SchedulePath) -> list[ScheduleChange]:
    return [_change(call, row) for row in call.app.schedules.changes(path.name)]


def _change(call: Call, row: ChangeRow) -> ScheduleChange:
    def shown(text: str | None) -> Any:
        return None if text is None else call.redaction.value(msgspec.json.decode(text))

    return ScheduleChange(
        kind=row.kind,
        actor=row.actor,
        reason=call.redaction.text(row.reason),
        changed_at=row.changed_at,
        before=shown(row.before),
        after=shown(row.after),
    )


class CronQuery(Struct):
    expression: Name
    zone: Name = "UTC"
    count: Annotated[int, Meta(ge=1, le=100)] = 5


@table.get("/cron", "The next times at which a cron expression fires")
def _cron(call: Call, query: CronQuery) -> list[datetime]:
    times = CronExpression.parse(query.expression, zone=query.zone, seed="")
    found: list[datetime] = []
    after = call.app.database.now()
    while len(found) < query.count and (slot := times.after(after)) is not None:
        found.append(slot)
        after = slot
    return found
