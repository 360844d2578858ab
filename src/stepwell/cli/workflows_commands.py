"""Declared workflows: `workflows` and its commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepwell.cli.apps import import_named_app, load_named_app
from stepwell.cli.bulk import act_in_bulk
from stepwell.cli.enqueue_commands import json_object
from stepwell.cli.errors import Misuse
from stepwell.cli.output import Output, of_state
from stepwell.cli.parameters import os_user, who_and_why_options
from stepwell.cli.short_lines import short_lines
from stepwell.cli.subjects import run_of, step_of
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import clean, counted, to_json
from stepwell.cli.workflow_views import of_workflow_state, write_workflow, write_workflows
from stepwell.model.workflow_states import WorkflowState

if TYPE_CHECKING:
    from stepwell import Run, Stepwell

STATE: Final = click.Choice([str(state) for state in WorkflowState], case_sensitive=False)
app_option = click.option(
    "--app", "app_name", metavar="MODULE:NAME", help="The app that declares the workflows.  [env var: STEPWELL_APP]"
)


def _load(target: Target, app_name: str | None) -> Stepwell:
    return load_named_app(target, app_name or target.config.app.name)


@click.group()
def workflows() -> None:
    """Declared workflows: list, start, check and control them."""


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
        none_yet = "No workflows. `stepwell workflows start NAME --app module:app` starts one."
        output.line(("No workflows match." if state or name else none_yet, "yellow"))
        return
    write_workflows(output, found, now)


@workflows.command()
@click.argument("workflow")
@database_option
@json_option
@click.pass_obj
def show(target: Target, workflow: str, as_json: bool) -> None:
    """Show one workflow: its request, its steps, what it waits for and its history."""
    with target.open() as app:
        write_workflow(run_of(app, workflow), as_json=as_json)


@workflows.command()
@click.argument("name")
@click.option("--context", type=json_object, default="{}", metavar="JSON", help="The context; `-` reads stdin.")
@click.option("--namespace", default="default", show_default=True, help="Its namespace.")
@click.option("--version", "version", help="The version.  [default: the newest]")
@click.option("--initiator", help="Who asks for it (recorded).")
@click.option("--source-system", metavar="NAME", help="The system that asks for it (recorded).")
@click.option("--reason", help="Why (recorded).")
@click.option("--tag", "tags", multiple=True, help="A tag (repeatable).")
@click.option("--bypass", "bypass_steps", multiple=True, metavar="STEP", help="A skippable step to skip (repeatable).")
@click.option(
    "--identity",
    type=click.Choice(["unique", "hash"]),
    default="unique",
    show_default=True,
    help="`hash`: refuse a second workflow with the same request.",
)
@click.option("--key", help="Refuse a second workflow with this key.")
@app_option
@database_option
@json_option
@click.pass_obj
def start(target: Target, /, name: str, app_name: str | None, as_json: bool, **request: Any) -> None:
    """Start a workflow by its name: the newest version, if none is given."""
    with _load(target, app_name) as app:
        run = app.workflows.start(name, **request, who=request["initiator"] or os_user())
        row = run.row()
    if as_json:
        click.echo(to_json(row))
        return
    Output().line(f"workflow {run.id} ({clean(row.namespace)}.{clean(row.name)}) is ", of_workflow_state(row.state))


@workflows.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--live", is_flag=True, help="Also decode what unfinished steps will receive, with today's annotations.")
@app_option
@database_option
@json_option
@click.pass_obj
def check(target: Target, files: tuple[Path, ...], live: bool, app_name: str | None, as_json: bool) -> None:
    """Check the workflows of an app, and YAML files. Exits with 1 if anything is wrong."""
    app = import_named_app(app_name or target.config.app.name)
    found = [problem for workflow in app.workflows for problem in workflow.problems()]
    found += app.workflows.problems_in(*files)
    if live and not found:
        with _load(target, app_name) as app:
            found = [str(problem) for problem in app.workflows.check_live()]
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
@click.option("--namespace", default="default", show_default=True, help="Its namespace.")
@click.option("--version", "version", help="The version.  [default: the newest]")
@app_option
@click.pass_obj
def export(target: Target, name: str, namespace: str, version: str | None, app_name: str | None) -> None:
    """Print the YAML of a workflow."""
    app = import_named_app(app_name or target.config.app.name)
    click.echo(app.workflows.get(name, namespace=namespace, version=version).export(), nl=False)


def _acting(name: str, done: str, text: str) -> None:
    """A command that does one thing to a whole workflow, or to all that match."""

    @workflows.command(name, help=f"{text} Without WORKFLOW: all that match the filters.")
    @click.argument("workflow", required=False)
    @click.option("--state", type=STATE, metavar="STATE", help="All in this state.")
    @click.option("--name", "named", help="All of this name.")
    @click.option("--namespace", help="All of this namespace.")
    @click.option("--preview", is_flag=True, help="Only show what would happen to the workflows that match.")
    @click.option("--yes", is_flag=True, help="Do not ask before acting on many.")
    @who_and_why_options
    @database_option
    @json_option
    @click.pass_obj
    def act(
        target: Target,
        /,
        workflow: str | None,
        state: str | None,
        named: str | None,
        namespace: str | None,
        preview: bool,
        yes: bool,
        who: str,
        why: str | None,
        as_json: bool,
    ) -> None:
        given = {"state": state, "name": named, "namespace": namespace}
        filters: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if (workflow is None) == (not filters):
            raise Misuse("name one WORKFLOW, or filters like --name and --state; nothing changed")
        with target.open() as app:
            if workflow is None or preview:
                chosen = filters if workflow is None else {"id": [run_of(app, workflow).id]}
                act_in_bulk(
                    app, f"{name}_workflow", chosen, who=who, why=why, only_preview=preview, yes=yes, as_json=as_json
                )
                return
            run = run_of(app, workflow)
            acted = getattr(run, name)(who=who, why=why)
            row = run.row()
        if as_json:
            click.echo(to_json({"workflow": row, "steps": acted if isinstance(acted, list) else []}))
            return
        if isinstance(acted, list):
            details = f"; {counted(len(acted), 'step')} {done}"
        else:
            details = f"; {done}" if done else ""
        Output().line(f"workflow {run.id} is ", of_workflow_state(row.state), details)


_acting("cancel", "cancelled", "Cancel everything that has not ended.")
_acting("retry", "revived", "Return every step that ended without concluding to Pending.")
_acting("resolve", "", "Declare a workflow that ended in error, or was cancelled, as resolved by hand.")
_acting("pause", "paused", "Hold back the Pending steps; what runs continues.")
_acting("resume", "resumed", "Resume a paused workflow.")


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
        new = run_of(app, workflow).rerun(step, who=who, why=why)
        row = new.row()
    if as_json:
        click.echo(to_json(row))
        return
    Output().line(f"workflow {new.id} is ", of_workflow_state(row.state), "; it copies what had concluded")


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
    value = json_value(answer)
    with target.open() as app:
        run = run_of(app, workflow)
        run.answer(gate, value, who=who, why=why)
        row = run.row()
    if as_json:
        click.echo(to_json(row))
        return
    Output().line(f"gate {clean(gate)} is answered; workflow {run.id} is ", of_workflow_state(row.state))


def _on_step(name: str, text: str) -> None:
    """A command that acts on one step of a workflow, by its name."""

    @workflows.command(name, help=text)
    @click.argument("workflow")
    @click.argument("step")
    @who_and_why_options
    @database_option
    @json_option
    @click.pass_obj
    def act(target: Target, workflow: str, step: str, who: str, why: str | None, as_json: bool) -> None:
        with target.open() as app:
            run = run_of(app, workflow)
            found = step_of(run, step)
            getattr(app, name.replace("-", "_"))(found, who=who, why=why)
            _write_step(run, found.id, as_json=as_json)


_on_step("skip", "Conclude STEP without running it, if the template declares it as skippable.")
_on_step("reset-attempts", "Reset the attempts of a Pending STEP, and the delay after the last one.")


@workflows.command()
@click.argument("workflow")
@click.argument("step")
@click.option("--result", metavar="JSON", help="Its result, checked against the return annotation.")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def complete(
    target: Target, workflow: str, step: str, result: str | None, who: str, why: str | None, as_json: bool
) -> None:
    """Complete STEP by hand, with a result if another step takes it."""
    value = None if result is None else json_value(result)
    with target.open() as app:
        run = run_of(app, workflow)
        found = step_of(run, step)
        app.complete(found, who=who, why=why, response=value)
        _write_step(run, found.id, as_json=as_json)


def _write_step(run: Run, step_id: int, *, as_json: bool) -> None:
    step, row = run.app.step(step_id), run.row()
    if as_json:
        click.echo(to_json({"workflow": row, "step": step}))
        return
    Output().line(
        f"step {step.id} ({clean(step.name)}) is ", of_state(step.state), f"; workflow {run.id} is ",
        of_workflow_state(row.state),
    )  # fmt: skip


def json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not valid JSON: {error}; a text needs quotes: '\"yes\"'") from error


# Of commands whose first sentence is too long for a list.
short_lines(
    workflows,
    {
        "complete": "Complete STEP by hand, with a result.",
        "rerun": "Start a copy that runs again from STEP.",
        "reset-attempts": "Reset the attempts and the delay of STEP.",
        "resolve": "Declare a workflow resolved by hand.",
        "retry": "Retry every step that did not conclude.",
        "show": "Show one workflow.",
        "skip": "Conclude STEP without running it.",
        "start": "Start a workflow by its name.",
    },
)
