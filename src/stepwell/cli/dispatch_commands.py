"""Moving steps forward: `dispatcher` runs for ever, `dispatch` ticks and ends."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.logs import log_to_file, log_to_stderr
from stepwell.cli.output import Cell, Column, Output
from stepwell.cli.overview_commands import phases_text
from stepwell.cli.parameters import known_group
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import NAME_WIDTH, clean, shorten, to_json

if TYPE_CHECKING:
    from stepwell.dispatch.tick import TickReport


@click.command()
@click.option("--once", is_flag=True, help="One tick of each group; without it, ticks as long as there is progress.")
@click.option("--group", help="Only this group.")
@database_option
@json_option
@click.pass_context
def dispatch(ctx: click.Context, once: bool, group: str | None, as_json: bool) -> None:
    """Tick every group that has work, or one group, and say what each tick did.

    Exit code 1 when a tick raised; its error is on stderr, and in the tick log.
    """
    with ctx.obj.open() as app:
        dispatcher = app.dispatcher(None if group is None else [known_group(app, group)])
        reports = dispatcher.round() if once else dispatcher.run_until_quiet()
    if as_json:
        click.echo(to_json([_as_dict(report) for report in reports]))
    else:
        _write_reports(Output(), reports)
    broken = [report for report in reports if report.error is not None]
    for report in broken:
        error = f"{type(report.error).__name__}: {report.error}"
        click.echo(f"stepwell: tick {report.tick} of group {clean(report.group)} raised {clean(error)}", err=True)
    ctx.exit(1 if broken else 0)


def _as_dict(report: TickReport) -> dict[str, Any]:
    return {
        "group": report.group,
        "tick": report.tick,
        "breaker_on": report.breaker_on,
        "phases": report.phases,
        "ended_early": report.ended_early,
        "opened": report.opened,
        "changed": report.changed,
        "dispatched": report.dispatched,
        "milliseconds": round(report.milliseconds, 3),
        "error": report.error,
    }


def _write_reports(output: Output, reports: list[TickReport]) -> None:
    if not reports:
        output.line("Nothing to do: no group has work, or another dispatcher is at it.")
        return
    columns = [
        Column("TICK", right=True),
        Column("GROUP"),
        Column("MS", right=True),
        Column("DISPATCHED", right=True),
        Column("WHAT IT CHANGED", folds=True),
    ]
    rows: list[list[Cell]] = [
        [
            str(report.tick),
            shorten(report.group, NAME_WIDTH),
            f"{report.milliseconds:.1f}",
            f"{report.dispatched:,}",
            _what(report),
        ]
        for report in reports
    ]
    output.table(columns, rows)
    if not all(report.breaker_on for report in reports):
        output.line(("Dispatching is paused (`stepwell resume`): only cascades go on.", "yellow"))


def _what(report: TickReport) -> Cell:
    if report.error is not None:
        return ("raised: see stderr", "bold red")
    return phases_text(report.phases) if report.changed else "nothing"


@click.command()
@click.option("--group", "groups", multiple=True, help="Only this group (may be repeated).")
@click.option("--log-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the log of ticks there.")
@click.option("-v", "--verbose", is_flag=True, help="Write the log of ticks to stderr.")
@database_option
@click.pass_obj
def dispatcher(target: Target, groups: tuple[str, ...], log_file: Path | None, verbose: bool) -> None:
    """Move steps forward until told to stop (Ctrl-C, SIGTERM). Any number may run at once.

    It moves steps from Pending to Dispatched and settles parents and cascades; workers run them. A group is ticked by
    one dispatcher at a time; if that one dies, another takes over.
    """
    from stepwell.cli.crews import crew_of

    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    if log_file is not None:
        log_to_file(log_file)
    with target.open() as app:
        runs = app.dispatcher(groups or None)
        with crew_of(app.dispatcher_parts(runs), stopping="Stopping: the tick under way ends first.") as crew:
            what = f"group{'' if len(groups) == 1 else 's'} {', '.join(map(clean, groups))}" if groups else "all groups"
            click.echo(f"Dispatching {what} of {target} as {runs.owner}. Ctrl-C or SIGTERM stops it.")
            if log_file is not None:
                click.echo(f"The log of ticks goes to {log_file}.")
            if not app.breaker.state().dispatching:
                click.echo("Dispatching is paused at present: only cascades go on until `stepwell resume`.")
            crew.run()
    click.echo(f"Stopped: {crew.report()}; every lock is released.")
