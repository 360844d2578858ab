"""The circuit breaker: `pause`, `resume`, `drain`, `safe-to-restart`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from stepwell.cli.errors import Misuse
from stepwell.cli.output import Output
from stepwell.cli.overview_commands import breaker_line
from stepwell.cli.parameters import duration, existing_workflow, known_group, who_and_why_options
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import counted, to_json

if TYPE_CHECKING:
    from stepwell.operate.breaker import RestartSafety

planned_option = click.option(
    "--planned", type=duration, metavar="DURATION", help="How long the pause should last, like 20m."
)


@click.command()
@click.option("--workflow", metavar="STEP|WORKFLOW", help="Pause only this workflow, or this step's workflow.")
@planned_option
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def pause(
    target: Target, workflow: str | None, planned: float | None, who: str, why: str | None, as_json: bool
) -> None:
    """Stop dispatching Pending steps. Running steps and cascades continue; nothing is lost.

    Only `stepwell resume` ends a pause. A planned end is shown, and reported as exceeded once it has passed.
    """
    if workflow is not None and planned is not None:
        raise Misuse("--planned is for dispatching as a whole, not for one workflow")
    with target.open() as app:
        if workflow is not None:
            found = existing_workflow(app, workflow)
            app.actions.pause_workflow(found, who, why)
            _write_workflow(found, paused=True, as_json=as_json)
            return
        app.breaker.pause(who, why, planned=planned)
        state = app.breaker.state()
    if as_json:
        click.echo(to_json(state))
        return
    output = Output()
    output.line("dispatching: ", *breaker_line(state))
    output.line(("Running steps continue. `stepwell resume` resumes dispatching.", "dim"))


@click.command()
@click.option("--workflow", metavar="STEP|WORKFLOW", help="Resume only this workflow, or this step's workflow.")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def resume(target: Target, workflow: str | None, who: str, why: str | None, as_json: bool) -> None:
    """Resume dispatching."""
    with target.open() as app:
        if workflow is not None:
            found = existing_workflow(app, workflow)
            app.actions.resume_workflow(found, who, why)
            _write_workflow(found, paused=False, as_json=as_json)
            return
        app.breaker.resume(who, why)
        state = app.breaker.state()
    if as_json:
        click.echo(to_json(state))
        return
    Output().line("dispatching: ", *breaker_line(state))


def _write_workflow(workflow: str, *, paused: bool, as_json: bool) -> None:
    if as_json:
        click.echo(to_json({"workflow": workflow, "paused": paused}))
        return
    Output().line(f"workflow {workflow} ", ("is paused", "bold red") if paused else ("is resumed", "green"))


@click.command()
@click.option("--wait", is_flag=True, help="Wait until nothing is in flight.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="Wait at most this many seconds.")
@planned_option
@who_and_why_options
@database_option
@json_option
@click.pass_context
def drain(
    ctx: click.Context,
    wait: bool,
    timeout: float | None,
    planned: float | None,
    who: str,
    why: str | None,
    as_json: bool,
) -> None:
    """Pause dispatching and, with --wait, wait until no step is dispatched or runs its own code.

    Exit code 0: drained, workers can be restarted. 1: not yet, or the timeout passed. Dispatching stays paused until
    `stepwell resume`.
    """
    limit = timeout if wait or timeout is not None else 0.0
    output = Output()
    with ctx.obj.open() as app:
        try:
            with _progress(output, quiet=as_json) as watch:
                safety = app.breaker.drain(who, why or "drain", planned=planned, timeout=limit, watch=watch)
        except KeyboardInterrupt:
            click.echo("Stopped waiting. Dispatching stays paused until `stepwell resume`.", err=True)
            ctx.exit(1)
    _write_safety(output, safety, as_json)
    if not as_json:
        output.line(("Dispatching stays paused until `stepwell resume`.", "dim"))
        if not safety.safe:
            output.line(("Running steps continue; `stepwell safe-to-restart` checks again.", "dim"))
    ctx.exit(0 if safety.safe else 1)


class _DrainProgress:
    """Shows the progress of a drain whenever it changes."""

    def __init__(self, output: Output, quiet: bool) -> None:
        self._output = output
        self._last = "" if not quiet else None
        self.status = output.rich.status("draining") if output.rich is not None and not quiet else None

    def __call__(self, safety: RestartSafety) -> None:
        text = f"draining: {counted(safety.dispatched, 'step')} dispatched, {safety.running:,} running"
        if self.status is not None:
            self.status.update(text)
        elif self._last is not None and text != self._last and not safety.safe:
            self._output.line(text)
            self._last = text


@contextmanager
def _progress(output: Output, *, quiet: bool) -> Iterator[_DrainProgress]:
    watch = _DrainProgress(output, quiet)
    if watch.status is None:
        yield watch
        return
    with watch.status:
        yield watch


def _write_safety(output: Output, safety: RestartSafety, as_json: bool) -> None:
    if as_json:
        click.echo(to_json({"safe": safety.safe, **_parts(safety), "reason": str(safety)}))
        return
    output.line((str(safety), "green" if safety.safe else "yellow"))


def _parts(safety: RestartSafety) -> dict[str, int | bool]:
    return {"dispatching": safety.dispatching, "dispatched": safety.dispatched, "running": safety.running}


@click.command()
@click.option("--group", help="Check only the steps of this group.")
@database_option
@json_option
@click.pass_context
def safe_to_restart(ctx: click.Context, group: str | None, as_json: bool) -> None:
    """Check whether workers can be restarted now. Exit code 0: safe. 1: not safe, with the reason.

    It is safe when dispatching is paused, no step is dispatched, and no worker runs a step's own code. A parent that
    only waits for its children does not count.
    """
    with ctx.obj.open() as app:
        safety = app.breaker.safe_to_restart(None if group is None else known_group(app, group))
    _write_safety(Output(), safety, as_json)
    ctx.exit(0 if safety.safe else 1)
