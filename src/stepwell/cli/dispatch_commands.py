"""Dispatching steps: `dispatcher` runs until stopped, `dispatch` ticks and exits."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stepwell.cli.logs import log_options, start_log
from stepwell.cli.output import Cell, Column, Output
from stepwell.cli.overview_commands import phases_text
from stepwell.cli.parameters import known_group, warn_of_unknown_groups
from stepwell.cli.settings import tick_options
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import NAME_WIDTH, clean, shorten, to_json

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.dispatch.dispatcher import Dispatcher
    from stepwell.dispatch.tick import TickReport
    from stepwell.service.config import Config
    from stepwell.service.part import Part

F = TypeVar("F", bound=Callable[..., Any])


@click.command()
@click.option("--once", is_flag=True, help="One tick of each group, not ticks until there is no more progress.")
@click.option("--group", help="Only this group.")
@database_option
@json_option
@click.pass_context
def dispatch(ctx: click.Context, once: bool, group: str | None, as_json: bool) -> None:
    """Tick every group that has work, or one group, and print what each tick did.

    Exit code 1 if a tick failed; its error is on stderr and in the tick log.
    """
    config = ctx.obj.config
    with ctx.obj.open(declare_queues=True) as app:
        groups = config.dispatcher.groups if group is None else [known_group(app, group)]
        dispatcher = app.dispatcher(groups or None, **tick_options(config))
        reports = dispatcher.round() if once else dispatcher.run_until_quiet()
    if as_json:
        click.echo(to_json([_as_dict(report) for report in reports]))
    else:
        _write_reports(Output(), reports)
    broken = [report for report in reports if report.error is not None]
    for report in broken:
        error = f"{type(report.error).__name__}: {report.error}"
        click.echo(f"stepwell: tick {report.tick} of group {clean(report.group)} failed: {clean(error)}", err=True)
    ctx.exit(1 if broken else 0)


def _as_dict(report: TickReport) -> dict[str, Any]:
    return {
        "group": report.group,
        "tick": report.tick,
        "breaker_on": report.breaker_on,
        "phases": report.progress(),
        "ended_early": report.ended_early,
        "opened": report.opened,
        "changed": report.changed,
        "dispatched": report.dispatched,
        "milliseconds": round(report.milliseconds, 3),
        "error": report.error,
    }


def _write_reports(output: Output, reports: list[TickReport]) -> None:
    if not reports:
        output.line("Nothing to do (`stepwell explain STEP` shows why a step waits).")
        return
    columns = [
        Column("TICK", right=True),
        Column("GROUP"),
        Column("MS", right=True),
        Column("DISPATCHED", right=True),
        Column("CHANGES", folds=True),
    ]
    rows: list[list[Cell]] = [
        [
            str(report.tick),
            shorten(report.group, NAME_WIDTH),
            f"{report.milliseconds:.1f}",
            f"{report.dispatched:,}",
            _changes(report),
        ]
        for report in reports
    ]
    output.table(columns, rows)
    if not all(report.breaker_on for report in reports):
        output.line(("Dispatching is paused (`stepwell resume`); only cascades continue.", "yellow"))


def _changes(report: TickReport) -> Cell:
    if report.error is not None:
        return ("failed; see stderr", "bold red")
    return phases_text(report.progress()) if report.changed else "nothing"


def dispatcher_options(function: F) -> F:
    """The options of everything that runs a dispatcher."""
    return click.option("--group", "groups", multiple=True, help="Only this group (repeatable).")(function)


def dispatching_parts(
    app: Stepwell, config: Config, groups: Collection[str], lease_seconds: float | None = None
) -> tuple[Dispatcher, list[Part]]:
    """A dispatcher and its sweep, as configured; without groups, for all."""
    dispatcher = app.dispatcher(groups or None, **tick_options(config, lease_seconds))
    return dispatcher, app.parts.of_dispatcher(dispatcher, sweep_seconds=config.dispatcher.sweep_seconds)


def _open_recorded(target: Target, app_name: str) -> Stepwell:
    from stepwell.cli.apps import load_named_app

    app = load_named_app(target, app_name)
    app.record_jobs()
    return app


@click.command()
@dispatcher_options
@click.option("--app", "app_name", metavar="MODULE:NAME", help="Record the settings of this app's jobs first.")
@log_options
@database_option
@click.pass_obj
def dispatcher(
    target: Target, /, groups: tuple[str, ...], app_name: str | None, log_file: Path | None, **log: Any
) -> None:
    """Dispatch steps until stopped (Ctrl-C, SIGTERM). Any number may run at once.

    It moves steps from Pending to Dispatched and updates parents and descendants; workers run the steps. A group is
    ticked by one dispatcher at a time; if that one dies, another takes over.
    """
    from stepwell.cli.crews import crew_of

    start_log(target.config, log_file=log_file, **log)
    with target.open(declare_queues=True) if app_name is None else _open_recorded(target, app_name) as app:
        warn_of_unknown_groups(app, groups, "this dispatcher")
        runs, parts = dispatching_parts(app, target.config, groups)
        with crew_of(parts, stopping="Stopping after the current tick.") as crew:
            what = f"group{'' if len(groups) == 1 else 's'} {', '.join(map(clean, groups))}" if groups else "all groups"
            click.echo(f"Dispatching {what} of {target} as {runs.owner}. Ctrl-C or SIGTERM stops it.")
            if log_file is not None:
                click.echo(f"Logging ticks to {log_file}.")
            if not app.breaker.state().dispatching:
                click.echo("Dispatching is paused (`stepwell resume`); only cascades continue.")
            crew.run()
    click.echo(f"Stopped: {crew.report()}; all locks released.")
