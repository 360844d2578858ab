"""Operations: actions in bulk with preview, pace and undo; and the audit trail of all that was done by hand."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from stepwell.look.shown import shown_items, shown_operation
from stepwell.model.ids import LARGEST_ID
from stepwell.operate.operations.operations import Operation, PreviewCounts, Progress
from stepwell.store.engine.operations import ActionCount, Item, OperationRow
from stepwell.web.api.endpoint import Call, Table
from stepwell.web.api.filters import filters_of
from stepwell.web.api.inputs import Id, Limit, Name, Why
from stepwell.web.api.views import ItemsPage, page

table = Table("operations")


class OperationPath(Struct):
    operation: Id


class OperationsQuery(Struct):
    before: Id | None = None
    limit: Limit = 50


class PreviewBody(Struct, forbid_unknown_fields=True):
    """What to do to the steps (or workflows) that match the filters; `result` is for `complete`.

    The filters are those of `GET /steps` and, for kinds that end in `_workflow`, those of workflows; `id` is a list.
    """

    kind: Name
    filters: dict[str, Any]
    result: Any = None


class StartOperationBody(Struct, forbid_unknown_fields=True):
    """How fast to go: at once, or at most at this pace."""

    pace: Annotated[str, Meta(max_length=40, description="Like `50/minute`.")] | None = None
    why: Why = None


class ItemsQuery(Struct):
    role: Literal["target", "also"] = "target"
    outcome: Literal["done", "refused", "changed"] | None = None
    expected: Literal["done", "refused"] | None = None
    after: Annotated[int, Meta(ge=0, le=LARGEST_ID)] = 0
    limit: Limit = 100


class PreviewView(Struct):
    """What an operation would do, frozen to the rows that were seen."""

    operation: OperationRow
    counts: PreviewCounts
    by_action: list[ActionCount]


class OperationView(Struct):
    """An operation and its progress."""

    operation: OperationRow
    progress: Progress
    by_action: list[ActionCount]


@table.get("/operations", "Who did what, newest first")
def _list(call: Call, query: OperationsQuery) -> ItemsPage[OperationRow]:
    rows = call.app.operations.newest(before=query.before, limit=query.limit)
    return page([shown_operation(row, call.redaction) for row in rows], query.limit)


@table.post(
    "/operations", "Preview an operation: freeze what matches; nothing changes", status=201, changes_nothing=True
)
def _preview(call: Call, body: PreviewBody) -> PreviewView:
    filters = filters_of(call, body.kind, body.filters)
    preview = call.app.operations.preview(body.kind, result=body.result, **filters)
    return PreviewView(shown_operation(preview.row(), call.redaction), preview.counts(), preview.by_action())


@table.get("/operations/{operation}", "Show an operation and its progress")
def _show(call: Call, path: OperationPath) -> OperationView:
    found = call.app.operations.get(path.operation)
    return OperationView(shown_operation(found.row(), call.redaction), found.progress(), found.by_action())


@table.get("/operations/{operation}/items", "The steps and workflows that an operation is about")
def _items(call: Call, path: OperationPath, query: ItemsQuery) -> ItemsPage[Item]:
    found = call.app.operations.get(path.operation)
    rows = found.items(
        role=query.role, expected=query.expected, outcome=query.outcome, after=query.after, limit=query.limit
    )
    return page(shown_items(rows, call.redaction), query.limit)


def _run(call: Call, operation: Operation) -> None:
    """In the background, which sees only what is committed."""
    call.app.database.after_commit(lambda: call.site.operations.run(operation))


@table.post("/operations/{operation}/start", "Start a previewed operation")
def _start(call: Call, path: OperationPath, body: StartOperationBody) -> OperationView:
    """It continues in the background; `GET` shows its progress."""
    preview = call.app.operations.open_preview(path.operation)
    operation = preview.execute(who=call.who, why=body.why, pace=body.pace, wait=False)
    _run(call, operation)
    return _show(call, path)


@table.post("/operations/{operation}/continue", "Continue an operation whose process has ended")
def _continue(call: Call, path: OperationPath) -> OperationView:
    _run(call, call.app.operations.get(path.operation))
    return _show(call, path)


@table.post("/operations/{operation}/undo", "Revert what an operation did, if nothing has happened since", status=201)
def _undo(call: Call, path: OperationPath, body: StartOperationBody) -> OperationView:
    found = call.app.operations.get(path.operation)
    undo = found.undo(who=call.who, why=body.why, pace=body.pace, wait=False)
    _run(call, undo)
    return _show(call, OperationPath(undo.id))
