"""Main processes: their tasks, queueings that failed, and shares."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, structs

from stepwell.processes.shares import Share
from stepwell.store.engine.processes import FailedQueueing, ListedTask
from stepwell.web.api.endpoint import Call, Table
from stepwell.web.api.inputs import Limit

table = Table("main processes")


class FailedQuery(Struct):
    main_process: Annotated[str, Meta(max_length=255)] = ""
    limit: Limit = 20


class SharesQuery(Struct):
    runs: Annotated[int, Meta(ge=1, le=10_000, description="Among how many of the latest runs.")] = 2_000


@table.get("/main-processes/tasks", "Every task with its state")
def _tasks(call: Call) -> list[ListedTask]:
    return call.app.main_processes.tasks()


@table.get("/main-processes/failed-queueings", "Queueings that failed, newest first")
def _failed(call: Call, query: FailedQuery) -> list[FailedQueueing]:
    rows = call.app.main_processes.failed_queueings(query.main_process, query.limit)
    return [structs.replace(row, message=call.redaction.text(row.message)) for row in rows]


@table.get("/main-processes/shares", "The share of each class: promised and delivered")
def _shares(call: Call, query: SharesQuery) -> list[Share]:
    return call.app.main_processes.shares(query.runs)
