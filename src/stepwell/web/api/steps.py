"""Steps: lists, one step and what happened to it, creating steps, and what an operator does with one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from stepwell.look.explain import Explanation
from stepwell.look.lists import StepRow
from stepwell.look.shown import shown_history, shown_logs, shown_operation, shown_row, shown_step
from stepwell.model.states import State
from stepwell.model.step import Priority, Step, StepType, Transition, TriggerRule
from stepwell.model.suggest import hint
from stepwell.model.times import MAX_SECONDS
from stepwell.store.engine.operations import OperationRow
from stepwell.store.engine.past import StepThen
from stepwell.store.engine.reading import LogLine
from stepwell.web.api.endpoint import Call, Table
from stepwell.web.api.inputs import Because, Id, Limit, Name, StepKey, Uuid, Why
from stepwell.web.api.views import (
    Done,
    TreeRow,
    row_of,
    tree_rows,
)
from stepwell.web.problems import HttpProblem

table = Table("steps")
_FILTERS: Final = (
    "action", "queue", "group", "type", "workflow", "block", "parent", "host", "reason", "fingerprint", "throttled",
    "ended_after", "ended_before",
)  # fmt: skip
Status: TypeAlias = Literal["ready", "delayed", "dispatched", "running", "gate", "held", "undecided", "exhausted"]

Seconds = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
Small = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class StepPath(Struct):
    step: StepKey


class StepsQuery(Struct):
    """Filters; steps match all of them. A state can be given more than once."""

    state: list[State] = []
    action: Name | None = None
    queue: Name | None = None
    group: Name | None = None
    type: StepType | None = None
    workflow: Uuid | None = None
    block: Uuid | None = None
    parent: Id | None = None
    host: Name | None = None
    reason: Name | None = None
    fingerprint: Annotated[str, Meta(min_length=1, max_length=255, description="Of a cause of failures.")] | None = None
    status: Annotated[list[Status], Meta(description="On the agenda.")] = []
    throttled: bool | None = None
    ended_after: Annotated[datetime, Meta(tz=True)] | None = None
    ended_before: Annotated[datetime, Meta(tz=True)] | None = None
    relatable: Annotated[str, Meta(pattern=r"^[^:]+:[\s\S]+$", description="What it is about: `type:id`.")] | None = (
        None
    )
    args: Annotated[list[str], Meta(description="`path=value`: an argument has this value.")] = []
    before: Id | None = None
    limit: Limit = 50


class StepsPage(Struct, kw_only=True):
    """Steps, newest first. `next` is `before` of the next page; null: there are no more.

    A page can have fewer rows than its limit, and still have a next one: it looked at as many rows as one answer may.
    """

    items: list[StepRow]
    next: int | None
    looked_at: int


class NewStepBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A step to create. What is left out is as the job declares it."""

    action: Name
    arguments: dict[str, Any] = {}
    label: Name | None = None
    queue: Name | None = None
    group: Name | None = None
    priority: Priority | None = None
    delay: Seconds | None = None
    dispatch_after: datetime | None = None
    parent: StepKey | None = None
    depends_on: list[StepKey] = []
    index: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    block: Uuid | None = None
    workflow: Uuid | None = None
    type: StepType | None = None
    trigger_rule: TriggerRule | None = None
    max_retries: Small | None = None
    timeout: Seconds | None = None
    cooldown: Seconds | None = None
    relatable_type: Name | None = None
    relatable_id: Name | None = None
    key: Name | None = None
    concurrency_key: Name | None = None
    concurrency_limit: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    why: Why = None


class CompleteBody(Struct, forbid_unknown_fields=True):
    """The result to complete a step with."""

    response: Any = None
    why: Why = None


class AnswerBody(Struct, forbid_unknown_fields=True):
    """The answer to an open gate."""

    answer: Any
    why: Why = None


class MomentQuery(Struct):
    at: Annotated[datetime, Meta(tz=True, description="An earlier moment, with its offset from UTC.")]


@table.get("/steps", "List steps, newest first")
def _list(call: Call, query: StepsQuery) -> StepsPage:
    filters = {name: getattr(query, name) for name in _FILTERS if getattr(query, name) is not None}
    if query.state:
        filters["state"] = query.state
    if query.status:
        filters["status"] = query.status
    if query.relatable is not None:
        filters["relatable"] = tuple(query.relatable.split(":", 1))
    if query.args:
        filters["args"] = dict(_argument(call, text) for text in query.args)
    found = call.app.lists.steps(limit=query.limit, before=query.before, **filters)
    rows = [shown_row(row, call.redaction) for row in found.rows]
    return StepsPage(items=rows, next=found.next, looked_at=found.looked_at)


def _argument(call: Call, text: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise HttpProblem(422, f"args: {text[:100]!r} is not `path=value`")
    refuse_secrets(call, [path])
    return path, value


def refuse_secrets(call: Call, paths: Iterable[str]) -> None:
    """What is not shown cannot be found out by searching for it."""
    for path in paths:
        if any(call.redaction.is_secret(name) for name in path.split(".")):
            raise HttpProblem(422, f"args: {path[:100]!r} is a secret, which is not shown and cannot be searched for")


@table.post("/steps", "Create a step", status=201)
def _create(call: Call, body: NewStepBody) -> Step:
    """The action must be that of a job that this app has or that a worker has recorded."""
    app = call.app
    _refuse_unknown_action(call, body.action)
    call.redaction.refuse_hidden(body.arguments, "arguments")
    given = {name: value for name, value in msgspec.structs.asdict(body).items() if value not in (None, [])}
    arguments, action, why = given.pop("arguments", {}), given.pop("action"), given.pop("why", None)
    kind, of = given.pop("relatable_type", None), given.pop("relatable_id", None)
    if (kind is None) != (of is None):
        raise HttpProblem(422, "relatable_type and relatable_id belong together")
    if kind is not None:
        given["relatable"] = (kind, of)
    if "parent" in given:
        given["parent"] = app.step(given["parent"]).ref
    if "depends_on" in given:
        given["depends_on"] = [app.step(which).ref for which in given["depends_on"]]
    handle = app.enqueue(action, arguments, who=call.who, why=why, **given)
    return shown_step(app.step(handle), call.redaction)


def _refuse_unknown_action(call: Call, action: str) -> None:
    known = call.app.jobs.actions()
    if action not in known:
        known |= {name for job in call.app.reader.jobs() for name in (job.name, *job.aliases)}
    if action not in known:
        raise HttpProblem(
            422,
            f"no job has the name {action[:100]!r}; nothing was written",
            hint(action, sorted(known), "jobs") if known else "no worker has recorded its jobs yet",
        )


@table.get("/steps/{step}", "Show a step")
def _show(call: Call, path: StepPath) -> Step:
    return shown_step(call.app.step(path.step), call.redaction)


@table.get("/steps/{step}/history", "Every change of state of a step")
def _history(call: Call, path: StepPath) -> list[Transition]:
    return shown_history(call.app.history(path.step), call.redaction)


@table.get("/steps/{step}/logs", "What the code of a step logged")
def _logs(call: Call, path: StepPath) -> list[LogLine]:
    return shown_logs(call.app.logs(path.step), call.redaction)


@table.get("/steps/{step}/tree", "A step with its descendants")
def _tree(call: Call, path: StepPath) -> list[TreeRow]:
    return tree_rows(call.app.tree(path.step), call.redaction)


@table.get("/steps/{step}/dependencies", "The steps that a step depends on")
def _dependencies(call: Call, path: StepPath) -> list[StepRow]:
    return [row_of(step, call.redaction) for step in call.app.reader.dependencies(path.step)]


@table.get("/steps/{step}/explain", "Why a step is not running")
def _explain(call: Call, path: StepPath) -> Explanation:
    found = call.app.explain(path.step)
    return replace(found, summary=call.redaction.text(found.summary))


@table.get("/steps/{step}/then", "A step as it was at an earlier moment")
def _then(call: Call, path: StepPath, query: MomentQuery) -> StepThen:
    step = call.app.step(path.step)
    found = call.app.step_at(step, query.at)
    if found is None:
        raise HttpProblem(404, f"step {step.id} did not exist at {query.at.isoformat()}")
    return found


@table.get("/steps/{step}/operations", "What was done by hand to a step")
def _operations(call: Call, path: StepPath) -> list[OperationRow]:
    rows = call.app.operations.of_step(call.app.step(path.step).id)
    return [shown_operation(row, call.redaction) for row in rows]


@table.post("/steps/{step}/retry", "Retry a step now, and revive what ended because of it")
def _retry(call: Call, path: StepPath, body: Because) -> Done:
    return Done(call.app.retry(path.step, who=call.who, why=body.why).revived)


@table.post("/steps/{step}/cancel", "Cancel a step and its descendants")
def _cancel(call: Call, path: StepPath, body: Because) -> Step:
    call.app.cancel(path.step, who=call.who, why=body.why)
    return _show(call, path)


@table.post("/steps/{step}/skip", "Conclude a step without running it")
def _skip(call: Call, path: StepPath, body: Because) -> Step:
    call.app.skip(path.step, who=call.who, why=body.why)
    return _show(call, path)


@table.post("/steps/{step}/complete", "Complete a step by hand, with a result")
def _complete(call: Call, path: StepPath, body: CompleteBody) -> Step:
    call.app.complete(path.step, who=call.who, why=body.why, response=body.response)
    return _show(call, path)


@table.post("/steps/{step}/fail", "End a step as Failed")
def _fail(call: Call, path: StepPath, body: Because) -> Step:
    call.app.actions.fail(call.app.step(path.step).id, call.who, body.why)
    return _show(call, path)


@table.post("/steps/{step}/stop", "End a Running step as Stopped")
def _stop(call: Call, path: StepPath, body: Because) -> Step:
    call.app.actions.stop(call.app.step(path.step).id, call.who, body.why)
    return _show(call, path)


@table.post("/steps/{step}/reset-attempts", "Reset the attempts of a Pending step, and its delay")
def _reset(call: Call, path: StepPath, body: Because) -> Step:
    call.app.reset_attempts(path.step, who=call.who, why=body.why)
    return _show(call, path)


@table.post("/steps/{step}/answer", "Answer an open gate")
def _answer(call: Call, path: StepPath, body: AnswerBody) -> Step:
    """The first answer counts."""
    call.app.workflow_engine.gates.answer(call.app.step(path.step).id, body.answer, call.who, body.why)
    return _show(call, path)
