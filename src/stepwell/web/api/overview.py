"""Figures, groups, workers, ticks and jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from msgspec import Meta, Struct, structs

from stepwell.look.figures import Cause, ClassFigures, Estimate, GroupFigures, HostFigures, Minute, Totals
from stepwell.look.overview import JobInfo, WorkerInfo
from stepwell.store.engine.reading import GroupRow, LaneCount, TickRow
from stepwell.web.api.endpoint import Call, Table
from stepwell.web.api.inputs import Id, Limit, Name
from stepwell.web.api.views import ItemsPage, page
from stepwell.web.problems import HttpProblem

table = Table("overview")


class GroupsView(Struct):
    """A group: its lock and its last ticks, and its unfinished steps in numbers."""

    group: GroupRow
    steps: GroupFigures


class TicksQuery(Struct):
    group: Name | None = None
    before: Id | None = None
    limit: Limit = 50


class ClassesQuery(Struct):
    host: Name | None = None
    active_only: bool = True


class MinutesQuery(Struct):
    minutes: Annotated[int, Meta(ge=1, le=10_080, description="How many minutes back.")] = 60
    action: Name | None = None


class CausesQuery(Struct):
    limit: Limit = 50


class CausePath(Struct):
    fingerprint: Name


@table.get("/totals", "Steps by state")
def _totals(call: Call) -> Totals:
    """The nine states are disjoint. child_pending and throttled are parts of Pending, child_running of Running."""
    return call.app.figures.totals()


@table.get("/hosts", "Hosts with their workers and steps")
def _hosts(call: Call) -> list[HostFigures]:
    return call.app.figures.hosts()


@table.get("/classes", "Actions with Running or Dispatched steps, of all hosts or of one")
def _classes(call: Call, query: ClassesQuery) -> list[ClassFigures]:
    return call.app.figures.classes(query.host, active_only=query.active_only)


@table.get("/queues", "Unfinished steps by queue and state")
def _queues(call: Call) -> dict[str, dict[str, int]]:
    return call.app.figures.queues()


@table.get("/minutes", "Throughput and latency per minute")
def _minutes(call: Call, query: MinutesQuery) -> list[Minute]:
    return call.app.figures.minutes(timedelta(minutes=query.minutes), action=query.action)


@table.get("/estimate", "When the waiting work will be done, at the pace of the last minutes")
def _estimate(call: Call) -> Estimate:
    return call.app.figures.estimate()


@table.get("/failures", "Failures by cause, the most recent first")
def _failures(call: Call, query: CausesQuery) -> list[Cause]:
    return [_shown(call, cause) for cause in call.app.figures.causes(limit=query.limit)]


@table.get("/failures/{fingerprint}", "Failures of one cause")
def _failure(call: Call, path: CausePath) -> Cause:
    """`GET /steps?fingerprint=…` lists their steps."""
    found = call.app.figures.cause(path.fingerprint)
    if found is None:
        raise HttpProblem(404, f"no failure has the fingerprint {path.fingerprint!r}")
    return _shown(call, found)


def _shown(call: Call, cause: Cause) -> Cause:
    return structs.replace(cause, error=call.redaction.text(cause.error), reason=call.redaction.text(cause.reason))


@table.get("/groups", "Groups: locks, last ticks, unfinished steps")
def _groups(call: Call) -> list[GroupsView]:
    figures = {each.group: each for each in call.app.figures.groups()}
    none = GroupFigures(group="", pending=0, dispatched=0, running=0)
    return [
        GroupsView(row, figures.get(row.group) or structs.replace(none, group=row.group)) for row in call.app.groups()
    ]


@table.get("/workers", "Workers: slots, queues and jobs")
def _workers(call: Call) -> list[WorkerInfo]:
    return call.app.workers()


@table.get("/unserved", "Work that could run now if a live worker served it")
def _unserved(call: Call) -> list[LaneCount]:
    return call.app.reader.unserved_lanes()


@table.get("/ticks", "The tick log, newest first")
def _ticks(call: Call, query: TicksQuery) -> ItemsPage[TickRow]:
    rows = call.app.reader.ticks(query.group, query.limit, query.before)
    return page([structs.replace(row, error=call.redaction.text(row.error)) for row in rows], query.limit)


@table.get("/actions", "The jobs that workers have recorded, with their settings")
def _actions(call: Call) -> list[JobInfo]:
    return call.app.reader.jobs()
