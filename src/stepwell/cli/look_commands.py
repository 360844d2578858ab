"""Inspecting steps: `steps`, `show`, `tree`, `explain`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from stepwell.cli.explanations import write_explanation
from stepwell.cli.history import write_history
from stepwell.cli.moments import write_step_then, write_workflow_then
from stepwell.cli.output import Cell, Column, Output, of_state
from stepwell.cli.parameters import STATE, argument, relatable, workflow_of
from stepwell.cli.subjects import moment, step_id, step_or_run
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import NAME_WIDTH, age, clean, exact, shorten, span, to_json
from stepwell.cli.trees import tree_lines
from stepwell.cli.workflow_views import write_workflow, write_workflow_explanation, write_workflow_tree
from stepwell.look.shown import shown_history, shown_logs, shown_row, shown_step
from stepwell.model.ids import LARGEST_ID
from stepwell.model.states import FAILED
from stepwell.model.statuses import STATUSES
from stepwell.model.step import Step

if TYPE_CHECKING:
    from stepwell import Run, Stepwell
    from stepwell.look.lists import Page, StepRow
    from stepwell.look.reader import TreeNode
    from stepwell.model.secrets import Redaction

# Steps that `steps` looks at in one call, where no index helps.
MOST_LOOKED_AT: Final = 200_000
# Children of one parent that `tree` shows without --all.
CHILDREN_SHOWN: Final = 50


@click.command()
@click.option("--state", "states", type=STATE, metavar="STATE", multiple=True, help="Only in this state (repeatable).")
@click.option("--group", help="Only steps of this group.")
@click.option("--queue", help="Only steps of this queue.")
@click.option("--action", help="Only steps of this action.")
@click.option("--workflow", metavar="STEP|WORKFLOW", help="Only steps of this workflow, or of this step's workflow.")
@click.option("--relatable", type=relatable, metavar="TYPE:ID", help="Only steps about this object.")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(STATUSES),
    metavar="STATUS",
    help=f"Only unfinished steps with this status (repeatable): {', '.join(STATUSES)}.",
)
@click.option("--reason", help="Only steps with this reason.")
@click.option("--host", help="Only steps that ran on this host last.")
@click.option("--fingerprint", help="Only failures of this cause.")
@click.option("--cause", metavar="STEP", help="Only steps that ended because this one did.")
@click.option("--parent", metavar="STEP", help="Only children of this step.")
@click.option("--throttled", is_flag=True, default=None, help="Only Pending steps that are throttled.")
@click.option("--arg", "arguments", type=argument, metavar="PATH=VALUE", multiple=True, help="Only with this argument.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Maximum number of steps.")
@click.option("--before", metavar="ID", type=click.IntRange(1), help="Only steps older than this one (next page).")
@database_option
@json_option
@click.pass_obj
def steps(
    target: Target,
    /,
    states: tuple[str, ...],
    status: tuple[str, ...],
    arguments: tuple[tuple[str, str], ...],
    workflow: str | None,
    cause: str | None,
    parent: str | None,
    limit: int,
    before: int | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """List steps, newest first."""
    with target.open() as app:
        if workflow is not None:
            filters["workflow"] = workflow_of(app, workflow)
        filters["cause"] = None if cause is None else step_id(app, cause)
        filters["parent"] = None if parent is None else step_id(app, parent)
        filters["args"] = dict(arguments) or None
        before = before and min(before, LARGEST_ID)
        found, page = _find(
            app, limit, before, {"state": list(states) or None, "status": list(status) or None, **filters}
        )
        if not found:  # a typo must not look like an empty queue
            app.reader.refuse_unknown_names(group=filters["group"], queue=filters["queue"])
        found = [shown_row(row, app.redaction) for row in found]
        now = app.database.now()
    if as_json:
        click.echo(to_json(found))
        return
    output = Output()
    if not found:
        output.line("No steps match." if before is None else "No older steps match.")
        _say_where_it_stopped(output, page)
        return
    columns = [
        Column("ID", right=True),
        Column("STATE"),
        Column("STEP", folds=True),
        Column("GROUP"),
        Column("QUEUE"),
        Column("CHANGED", right=True),
        Column("WHY", folds=True),
    ]
    output.table(columns, (_row(step, now) for step in found))
    _say_where_it_stopped(output, page)


def _find(app: Stepwell, limit: int, before: int | None, filters: dict[str, Any]) -> tuple[list[StepRow], Page]:
    """Pages until there are enough rows, or enough was looked at."""
    found: list[StepRow] = []
    looked_at = 0
    while True:
        page = app.lists.steps(limit=limit - len(found), before=before, **filters)
        found += page.rows
        looked_at += page.looked_at
        if page.next is None or len(found) == limit or looked_at >= MOST_LOOKED_AT:
            return found, page
        before = page.next


def _say_where_it_stopped(output: Output, page: Page) -> None:
    if page.next is not None:
        output.line((f"Next page: --before {page.next}", "dim"))


def _row(step: StepRow, now: datetime) -> list[Cell]:
    why = step.error if step.state in FAILED else None
    return [
        str(step.id),
        of_state(step.state),
        shorten(step.name, 60),
        shorten(step.group or "", NAME_WIDTH),
        shorten(step.queue, NAME_WIDTH),
        age(step.updated_at, now),
        shorten(why or step.reason or "", 60),
    ]


@click.command()
@click.argument("which", metavar="STEP|WORKFLOW")
@click.option("--at", type=moment, metavar="TIME", help="As it was at this time (ISO 8601; UTC without an offset).")
@click.option("--show-secrets", is_flag=True, help="Do not redact passwords, tokens and other secrets.")
@database_option
@json_option
@click.pass_obj
def show(target: Target, which: str, at: datetime | None, show_secrets: bool, as_json: bool) -> None:
    """Show one step (fields, arguments, response, error, history) or one workflow with its steps.

    With --at, as it was then: rebuilt from the history.
    """
    with target.open() as app:
        archived = None if at is not None else app.reader.archived(which)
        found = step_or_run(app, which) if archived is None else archived.step
        if at is not None:
            _show_moment(app, found, at, as_json=as_json)
            return
        if not isinstance(found, Step):
            write_workflow(found, as_json=as_json, show_secrets=show_secrets)
            return
        history = app.history(found) if archived is None else archived.history
        logs = app.logs(found) if archived is None else archived.logs
        upstream = app.reader.dependencies(found) if archived is None else []
        if not show_secrets:
            found, history = shown_step(found, app.redaction), shown_history(history, app.redaction)
            logs = shown_logs(logs, app.redaction)
        now = app.database.now()
    if as_json:
        ids = [step.id for step in upstream] if archived is None else archived.depends_on
        shown = {"step": found, "depends_on": ids, "history": history, "logs": logs}
        click.echo(to_json(shown if archived is None else {**shown, "archived_at": archived.archived_at}))
        return
    output = Output()
    output.line((f"step {found.id} ", "bold"), (found.name, "bold"), "  ", of_state(found.state))
    if archived is not None:
        output.line((f"archived on {exact(archived.archived_at)}", "dim"))
    depends_on = ", ".join(f"{step.id} {step.name} ({step.state})" for step in upstream)
    output.fields(_fields(found, depends_on, now))
    output.block("Arguments", _pretty(found.arguments))
    if found.response is not None or found.own_code_done_at is not None:
        output.block("Response", _pretty(found.response))
    if found.error_message:
        output.block("First error", found.error_message)
    if found.error_stack_trace:
        output.block("Stack trace", found.error_stack_trace)
    if found.decision is not None:
        output.block("Decision", _pretty(found.decision))
    if found.checkpoint is not None:
        output.block("Checkpoint", _pretty(found.checkpoint))
    output.heading("History")
    write_history(output, history)
    if logs:
        output.heading("Log")
        output.table(
            [Column("TIME"), Column("ATTEMPT", right=True), Column("LEVEL"), Column("MESSAGE", folds=True)],
            ([exact(row.at), str(row.attempt), row.level, clean(row.message)] for row in logs),
        )


def _show_moment(app: Stepwell, found: Step | Run, at: datetime, *, as_json: bool) -> None:
    if at > app.database.now():
        raise click.BadParameter(f"{at} is in the future; --at shows an earlier time")
    if isinstance(found, Step):
        step_then = app.step_at(found, at)
        if as_json:
            click.echo(to_json(step_then))
        else:
            write_step_then(Output(), found.id, step_then, at)
        return
    then = app.workflow_at(found.id, at)
    if as_json:
        click.echo(to_json(then))
    else:
        write_workflow_then(Output(), then)


def _fields(step: Step, depends_on: str, now: datetime) -> Iterator[tuple[str, Cell]]:
    yield "uuid", step.uuid
    yield "action", step.action
    yield "label", step.label or ""
    yield "type", step.type if step.type != "default" else ""
    yield "reason", step.reason or ""
    yield "workflow", step.workflow_id or ""
    yield "parent", str(step.parent_step_id or "")
    yield "depends on", depends_on
    yield "block", f"{step.block_uuid} index {step.index}" if step.block_uuid else ""
    yield "child block", step.child_block_uuid or ""
    yield "about", f"{step.relatable_type}:{step.relatable_id}" if step.relatable_type else ""
    yield "group", step.group or "(assigned by the next tick)"
    yield "queue", step.queue or ""
    yield "priority", step.priority or ""
    yield "trigger rule", step.trigger_rule if step.trigger_rule != "all_concluded" else ""
    yield "attempts", str(step.attempts)
    yield "retries", "" if step.max_retries is None else f"{step.retries} of {step.max_retries}"
    yield "not completed", str(step.not_completed or "")
    yield "rescues", str(step.rescues or "")
    yield "throttled", "now" if step.is_throttled else "earlier" if step.was_throttled else ""
    yield "timeout", f"{span(step.timeout)}, cooldown {span(step.cooldown or 0)}" if step.timeout else ""
    yield "progress", _progress(step)
    yield "key", step.idempotency_key or ""
    yield "concurrency", f"key {step.concurrency_key}, limit {step.concurrency_limit}" if step.concurrency_key else ""
    yield "lease", f"{step.lease_worker} (token {step.lease_token})" if step.lease_worker else ""
    yield "lease ends", exact(step.lease_deadline, now)
    yield "host", step.hostname or ""
    yield "tick", str(step.tick_id or "")
    yield "created", exact(step.created_at, now)
    yield "not before", exact(step.dispatch_after, now)
    yield "started", exact(step.started_at, now)
    yield "next stage", step.stage or ""
    yield "own code done", exact(step.own_code_done_at, now)
    yield "ended", exact(step.completed_at, now)
    yield "duration", span(step.duration) if step.duration is not None else ""
    yield "changed", exact(step.updated_at, now)
    yield "changed by", step.actor or ""


def _progress(step: Step) -> str:
    if step.progress_done is None:
        return ""
    return f"{step.progress_done:g}" + (f" of {step.progress_total:g}" if step.progress_total is not None else "")


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


@click.command()
@click.argument("which", metavar="STEP|WORKFLOW")
@click.option("--all", "everything", is_flag=True, help=f"Show more than {CHILDREN_SHOWN} children per parent.")
@database_option
@json_option
@click.pass_obj
def tree(target: Target, which: str, everything: bool, as_json: bool) -> None:
    """Show a step with its descendants, in the order of their index, or all steps of a workflow."""
    with target.open() as app:
        found = step_or_run(app, which)
        if not isinstance(found, Step):
            if as_json:
                trees = app.reader.workflow_trees(found.id)
                click.echo(to_json([each for top in trees for each in _listed(top, app.redaction)]))
            else:
                write_workflow_tree(found, None if everything else CHILDREN_SHOWN)
            return
        top = app.tree(found)
    if as_json:
        click.echo(to_json(list(_listed(top, app.redaction))))
        return
    output = Output()
    for line in tree_lines(top, None if everything else CHILDREN_SHOWN):
        output.line(*line, cut=True)


def _listed(top: TreeNode, redaction: Redaction) -> Iterator[dict[str, Any]]:
    """The steps in the order of the tree, each with its depth: some JSON readers limit nesting."""
    stack = [(top, 0)]
    while stack:
        node, depth = stack.pop()
        yield {"depth": depth, "step": shown_step(node.step, redaction)}
        stack.extend((child, depth + 1) for child in reversed(node.children))


@click.command()
@click.argument("which", metavar="STEP|WORKFLOW")
@database_option
@json_option
@click.pass_obj
def explain(target: Target, which: str, as_json: bool) -> None:
    """Explain why a step is not running, or a workflow has not completed.

    It shows what a step waits for, what that waits for, and the root causes; for a workflow, those of all its steps.
    """
    with target.open() as app:
        subject = step_or_run(app, which)
        now = app.database.now()
        if not isinstance(subject, Step):
            of_workflow = subject.explain()
            if as_json:
                click.echo(to_json(of_workflow.as_dict()))
            else:
                write_workflow_explanation(subject, of_workflow, now)
            return
        found = app.explain(subject)
    if as_json:
        click.echo(to_json(found.as_dict()))
        return
    write_explanation(Output(), found, now)
