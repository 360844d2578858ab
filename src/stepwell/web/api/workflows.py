"""Declared workflows: what can be started, what was, where it stands, and what an operator does with one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from stepwell.look.explain import WorkflowExplanation
from stepwell.look.past import WorkflowThen
from stepwell.look.shown import shown_operation
from stepwell.model.ids import canonical_uuid
from stepwell.model.workflow_states import WorkflowState
from stepwell.store.engine.operations import OperationRow
from stepwell.store.engine.workflows import Execution, ListedWorkflow, WorkflowRow, WorkflowTransition
from stepwell.web.api.endpoint import Call, Table
from stepwell.web.api.inputs import Because, Limit, Name, Uuid, Why
from stepwell.web.api.steps import MomentQuery
from stepwell.web.api.views import Done, ItemsPage, TreeRow, page, tree_rows
from stepwell.workflow.run import Run

table = Table("workflows")


class WorkflowPath(Struct):
    workflow: Uuid


class WorkflowsQuery(Struct):
    state: WorkflowState | None = None
    name: Name | None = None
    before: Uuid | None = None
    limit: Limit = 50


class StartWorkflowBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A request for a workflow. `key` or `identity: hash` refuse a second one."""

    name: Name
    namespace: Name = "default"
    version: Name | None = None
    context: dict[str, Any] = {}
    reason: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    source_system: Name | None = None
    tags: list[Name] = []
    bypass_steps: list[Name] = []
    identity: Literal["unique", "hash"] = "unique"
    key: Name | None = None


class RerunBody(Struct, forbid_unknown_fields=True):
    """The step from which a copy runs again."""

    step: Name
    why: Why = None


class GateBody(Struct, forbid_unknown_fields=True):
    """The answer to the gate of this name."""

    gate: Name
    answer: Any
    why: Why = None


class Template(Struct):
    """A workflow that can be started."""

    namespace: str
    name: str
    version: str
    description: str
    steps: list[str]


class StartedWorkflow(Struct):
    id: str


class WorkflowView(Struct):
    """A workflow: its request and state, and its steps in numbers."""

    workflow: WorkflowRow
    execution: Execution


@table.get("/workflows", "List workflows, newest first")
def _list(call: Call, query: WorkflowsQuery) -> ItemsPage[ListedWorkflow]:
    before = None if query.before is None else canonical_uuid(query.before)
    state = None if query.state is None else str(query.state)
    return page(call.app.workflows.newest(state=state, name=query.name, before=before, limit=query.limit), query.limit)


@table.get("/templates", "The workflows that the code of this app declares")
def _templates(call: Call) -> list[Template]:
    templates = (workflow.check() for workflow in call.app.workflows)
    return [
        Template(each.namespace, each.name, each.version, each.description, [step.name for step in each.steps])
        for each in templates
    ]


@table.post("/workflows", "Start a workflow", status=201)
def _start(call: Call, body: StartWorkflowBody) -> StartedWorkflow:
    call.redaction.refuse_hidden(body.context, "context")
    options: dict[str, Any] = {
        "who": call.who,
        "initiator": call.who,
        "reason": body.reason,
        "source_system": body.source_system,
        "tags": body.tags,
        "bypass_steps": body.bypass_steps,
        "identity": body.identity,
        "key": body.key,
    }
    run = call.app.workflows.start(body.name, body.context, namespace=body.namespace, version=body.version, **options)
    return StartedWorkflow(run.id)


def _run(call: Call, path: WorkflowPath) -> Run:
    return call.app.workflows.run(canonical_uuid(path.workflow) or path.workflow)


@table.get("/workflows/{workflow}", "Show a workflow")
def _show(call: Call, path: WorkflowPath) -> WorkflowView:
    run = _run(call, path)
    row, redaction = run.row(), call.redaction
    shown = msgspec.structs.replace(row, context=redaction.value(row.context), reason=redaction.text(row.reason))
    return WorkflowView(shown, run.execution())


@table.get("/workflows/{workflow}/history", "Every change of state of a workflow")
def _history(call: Call, path: WorkflowPath) -> list[WorkflowTransition]:
    run = _run(call, path)
    run.row()
    return run.history()


@table.get("/workflows/{workflow}/tree", "The steps of a workflow, each with its descendants")
def _tree(call: Call, path: WorkflowPath) -> list[TreeRow]:
    run = _run(call, path)
    run.row()
    return [row for top in call.app.reader.workflow_trees(run.id) for row in tree_rows(top, call.redaction)]


@table.get("/workflows/{workflow}/explain", "Why a workflow has not completed")
def _explain(call: Call, path: WorkflowPath) -> WorkflowExplanation:
    return _run(call, path).explain()


@table.get("/workflows/{workflow}/then", "A workflow and its steps as they were at an earlier moment")
def _then(call: Call, path: WorkflowPath, query: MomentQuery) -> WorkflowThen:
    return call.app.workflow_at(path.workflow, query.at)


@table.get("/workflows/{workflow}/operations", "What was done by hand to a workflow")
def _operations(call: Call, path: WorkflowPath) -> list[OperationRow]:
    run = _run(call, path)
    run.row()
    return [shown_operation(row, call.redaction) for row in call.app.operations.of_workflow(run.id)]


@table.post("/workflows/{workflow}/cancel", "Cancel everything in a workflow that has not ended")
def _cancel(call: Call, path: WorkflowPath, body: Because) -> Done:
    return Done(_run(call, path).cancel(who=call.who, why=body.why))


@table.post("/workflows/{workflow}/retry", "Retry every step of a workflow that ended without concluding")
def _retry(call: Call, path: WorkflowPath, body: Because) -> Done:
    return Done(_run(call, path).retry(who=call.who, why=body.why))


@table.post("/workflows/{workflow}/resolve", "Declare a workflow as resolved by hand")
def _resolve(call: Call, path: WorkflowPath, body: Because) -> WorkflowView:
    _run(call, path).resolve(who=call.who, why=body.why)
    return _show(call, path)


@table.post("/workflows/{workflow}/pause", "Hold back the Pending steps of a workflow")
def _pause(call: Call, path: WorkflowPath, body: Because) -> WorkflowView:
    run = _run(call, path)
    run.row()
    run.pause(who=call.who, why=body.why)
    return _show(call, path)


@table.post("/workflows/{workflow}/resume", "Resume a paused workflow")
def _resume(call: Call, path: WorkflowPath, body: Because) -> WorkflowView:
    run = _run(call, path)
    run.row()
    run.resume(who=call.who, why=body.why)
    return _show(call, path)


@table.post("/workflows/{workflow}/rerun", "Start a copy that runs again from a step", status=201)
def _rerun(call: Call, path: WorkflowPath, body: RerunBody) -> StartedWorkflow:
    return StartedWorkflow(_run(call, path).rerun(body.step, who=call.who, why=body.why).id)


@table.post("/workflows/{workflow}/answer", "Answer an open gate by its name")
def _answer(call: Call, path: WorkflowPath, body: GateBody) -> WorkflowView:
    _run(call, path).answer(body.gate, body.answer, who=call.who, why=body.why)
    return _show(call, path)
