"""Declared workflows: `workflows` and its commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import click

from stepwell.cli.apps import import_named_app, load_named_app
from stepwell.cli.enqueue_commands import json_object
from stepwell.cli.errors import Problem
from stepwell.cli.output import Cell, Column, Output, Span, of_state
from stepwell.cli.parameters import who_and_why_options
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import age, clean, counted, exact, shorten, to_json
from stepwell.model.workflow_states import WorkflowState

if TYPE_CHECKING:
    from stepwell import Run, Stepwell

STATE: Final = click.Choice([str(state) for state in WorkflowState], case_sensitive=False)
STYLES: Final = {
    WorkflowState.PENDING: "yellow",
    WorkflowState.IN_PROGRESS: "bold blue",
    WorkflowState.COMPLETE: "green",
    WorkflowState.ERROR: "bold red",
    WorkflowState.CANCELLED: "magenta",
    WorkflowState.RESOLVED_MANUALLY: "dim green",
}
app_option = click.option("--app", "app_name", metavar="MODULE:NAME", help="The app that declares the workflows.")


def _of_state(state: str) -> Span:
    return (state, STYLES[WorkflowState(state)])


def _run(app: Stepwell, text: str) -> Run:
    """A workflow by its id, or by the beginning of it."""
    try:
        return app.workflows.run(str(UUID(text)))
    except ValueError:
        found = app.workflows.ids_like(text)
    if len(found) != 1:
        what = "no workflow has" if not found else f"{len(found)} workflows have"
        raise Problem(f"{what} an id that begins with {text!r}; `stepwell workflows list` shows them")
    return app.workflows.run(found[0])


def _load(target: Target, app_name: str | None) -> Stepwell:
    return load_named_app(target, app_name or target.config.app.name)


@click.group()
def workflows() -> None:
    """Declared workflows: list, start, check and steer them."""


@workflows.command("list")
@click.option("--state", type=STATE, help="Only workflows in this state.")
@click.option("--name", help="Only workflows of this name.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1_000))
@database_option
@json_option
@click.pass_obj
def list_workflows(target: Target, state: str | None, name: str | None, limit: int, as_json: bool) -> None:
    """List workflows, newest first."""
    with target.open() as app:
        found = app.workflows.newest(state=state, name=name, limit=limit)
        now = app.database.now()
    if as_json:
        click.echo(to_json(found))
        return
    output = Output()
    if not found:
        output.line(("No workflows. `stepwell workflows start NAME --app module:app` starts one.", "yellow"))
        return
    columns = [
        Column("ID"), Column("WORKFLOW"), Column("VERSION"), Column("STATE"), Column("STATUS"),
        Column("DONE", right=True), Column("STARTED", right=True), Column("INITIATOR", folds=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            row.id,
            clean(f"{row.namespace}.{row.name}"),
            clean(row.version),
            _of_state(row.state),
            row.execution_status,
            f"{row.completed + row.skipped} of {row.total}",
            age(row.created_at, now),
            clean(row.initiator or ""),
        ]
        for row in found
    ]
    output.table(columns, rows)


@workflows.command()
@click.argument("workflow")
@database_option
@json_option
@click.pass_obj
def show(target: Target, workflow: str, as_json: bool) -> None:
    """Show one workflow: its request, its steps, what it waits for and its history."""
    with target.open() as app:
        run = _run(app, workflow)
        row, execution, history = run.row(), run.execution(), run.history()
        steps = [app.step(step.id) for step in run.steps().values()]
        now = app.database.now()
    if as_json:
        click.echo(to_json({"workflow": row, "execution": execution, "steps": steps, "history": history}))
        return
    output = Output()
    fields: list[tuple[str, Cell]] = [
        ("workflow", clean(f"{row.namespace}.{row.name}, version {row.version}")),
        ("state", [_of_state(row.state), f" ({execution.execution_status})"]),
        ("context", shorten(to_json(row.context), 300)),
        ("asked by", clean(", ".join(filter(None, (row.initiator, row.source_system, row.request_reason))) or "-")),
        ("started", exact(row.created_at, now)),
    ]
    if execution.next_change_at is not None:
        fields.append(("next change", exact(execution.next_change_at, now)))
    output.fields(fields)
    columns = [
        Column("STEP", right=True),
        Column("NAME"),
        Column("KIND"),
        Column("STATE"),
        Column("REASON", folds=True),
    ]
    rows: list[list[Cell]] = [
        [str(s.id), clean(s.template or ""), s.kind, of_state(s.state), clean(s.error_message or s.reason or "")]
        for s in steps
    ]
    output.line()
    output.table(columns, rows)
    output.line()
    for change in history:
        why = f": {clean(change.reason)}" if change.reason else ""
        output.line(exact(change.at, now), "  ", _of_state(change.to_state), f"  {clean(change.actor or '')}{why}")


@workflows.command()
@click.argument("name")
@click.option("--context", type=json_object, default="{}", metavar="JSON", help="The context; `-` reads stdin.")
@click.option("--namespace", default="default", show_default=True)
@click.option("--version", "version", help="The version.  [default: the newest]")
@click.option("--initiator", help="Who asks for it (recorded).")
@click.option("--reason", help="Why (recorded).")
@click.option("--tag", "tags", multiple=True, help="A tag (repeatable).")
@click.option("--bypass", "bypass_steps", multiple=True, metavar="STEP", help="A skippable step to skip (repeatable).")
@click.option("--key", help="Refuse a second workflow with this key.")
@app_option
@database_option
@json_option
@click.pass_obj
def start(target: Target, /, name: str, app_name: str | None, as_json: bool, **request: Any) -> None:
    """Start a workflow by its name: the newest version, if none is given."""
    with _load(target, app_name) as app:
        run = app.workflows.start(name, **request)
        row = run.row()
    if as_json:
        click.echo(to_json(row))
        return
    Output().line(f"workflow {run.id} ({clean(row.namespace)}.{clean(row.name)}) is ", _of_state(row.state))


@workflows.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--live", is_flag=True, help="Also decode what unfinished steps will receive, with today's annotations.")
@app_option
@database_option
@json_option
@click.pass_obj
def check(target: Target, files: tuple[Path, ...], live: bool, app_name: str | None, as_json: bool) -> None:
    """Check the workflows of an app, and YAML files. Exits with 1 if anything is wrong."""
    if live:
        with _load(target, app_name) as app:
            found = [str(problem) for problem in app.workflows.check_live()]
    else:
        app = import_named_app(app_name or target.config.app.name)
        found = [problem for workflow in app.workflows for problem in workflow.problems()]
        found += app.workflows.problems_in(*files)
    if as_json:
        click.echo(to_json({"problems": found}))
    else:
        for problem in found:
            Output().line((clean(problem), "red"))
        Output().line(counted(len(found), "problem") if found else "no problems")
    if found:
        raise SystemExit(1)


@workflows.command()
@click.argument("name")
@click.option("--namespace", default="default", show_default=True)
@click.option("--version", "version", help="The version.  [default: the newest]")
@app_option
@click.pass_obj
def export(target: Target, name: str, namespace: str, version: str | None, app_name: str | None) -> None:
    """Print the YAML of a workflow."""
    app = import_named_app(app_name or target.config.app.name)
    click.echo(app.workflows.get(name, namespace=namespace, version=version).export(), nl=False)


def _acting(name: str, done: str, text: str) -> None:
    """A command that does one thing to a whole workflow."""

    @workflows.command(name, help=text)
    @click.argument("workflow")
    @who_and_why_options
    @database_option
    @json_option
    @click.pass_obj
    def act(target: Target, workflow: str, who: str, why: str | None, as_json: bool) -> None:
        with target.open() as app:
            run = _run(app, workflow)
            acted = getattr(run, name)(who=who, why=why)
            row = run.row()
        if as_json:
            click.echo(to_json({"workflow": row, "steps": acted if isinstance(acted, list) else []}))
            return
        of = f"; {counted(len(acted), 'step')} {done}" if isinstance(acted, list) else ""
        Output().line(f"workflow {run.id} is ", _of_state(row.state), of)


_acting("cancel", "cancelled", "Cancel everything that has not ended.")
_acting("retry", "revived", "Return every step that ended without concluding to Pending.")
_acting("resolve", "", "Declare a workflow that ended in error, or was cancelled, as resolved by hand.")
_acting("pause", "", "Hold back the Pending steps; what runs continues.")
_acting("resume", "", "Resume a paused workflow.")


@workflows.command()
@click.argument("workflow")
@click.argument("step")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def rerun(target: Target, workflow: str, step: str, who: str, why: str | None, as_json: bool) -> None:
    """Start a copy that runs again from STEP, with everything downstream of it and everything unconcluded."""
    with target.open() as app:
        new = _run(app, workflow).rerun(step, who=who, why=why)
        row = new.row()
    if as_json:
        click.echo(to_json(row))
        return
    Output().line(f"workflow {new.id} is ", _of_state(row.state), "; it copies what had concluded")


@workflows.command()
@click.argument("workflow")
@click.argument("gate")
@click.argument("answer", metavar="JSON")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def answer(target: Target, workflow: str, gate: str, answer: str, who: str, why: str | None, as_json: bool) -> None:
    """Answer the open GATE of a workflow. The first answer counts."""
    import json

    try:
        value = json.loads(answer)
    except ValueError as error:
        raise click.BadParameter(f"not valid JSON: {error}; a text needs quotes: '\"yes\"'") from error
    with target.open() as app:
        run = _run(app, workflow)
        run.answer(gate, value, who=who, why=why)
        row = run.row()
    if as_json:
        click.echo(to_json(row))
        return
    Output().line(f"gate {clean(gate)} is answered; workflow {run.id} is ", _of_state(row.state))
