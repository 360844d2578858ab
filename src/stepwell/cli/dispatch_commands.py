"""Moving steps forward: `dispatcher` runs for ever, `dispatch` ticks and ends."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import click

from stepwell.cli.logs import log_to_file, log_to_stderr
from stepwell.cli.output import Cell, Column, Output
from stepwell.cli.overview_commands import phases_text
from stepwell.cli.parameters import known_group
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import NAME_WIDTH, clean, shorten, to_json
from stepwell.service.wakeup import StopSignal

if TYPE_CHECKING:
    from stepwell.dispatch.dispatcher import Dispatcher
    from stepwell.dispatch.tick import TickReport

# `timeout`, make and terminals send a signal to the process and to its group: two that mean one.
SAME_SIGNAL_SECONDS: Final = 1.0


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
    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    if log_file is not None:
        log_to_file(log_file)
    with target.open() as app:
        signals = _Signals()
        runs = app.dispatcher(groups or None)
        what = f"group{'' if len(groups) == 1 else 's'} {', '.join(map(clean, groups))}" if groups else "all groups"
        click.echo(f"Dispatching {what} of {target} as {runs.owner}. Ctrl-C or SIGTERM stops it.")
        if log_file is not None:
            click.echo(f"The log of ticks goes to {log_file}.")
        if not app.breaker.state().dispatching:
            click.echo("Dispatching is paused at present: only cascades go on until `stepwell resume`.")
        _run_until_signal(runs, signals)
    click.echo("Stopped; every lock is released.")


class _Signals:
    """SIGINT and SIGTERM, waiting to be read.

    The handler feeds a queue and sets no event: it may interrupt the very code that holds the event's lock.
    """

    def __init__(self) -> None:
        self.news = SimpleQueue[int | BaseException | None]()
        self._before = {
            number: signal.signal(number, lambda number, frame: self.news.put(number))
            for number in (signal.SIGINT, signal.SIGTERM)
        }

    def forget(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _run_until_signal(runs: Dispatcher, signals: _Signals) -> None:
    stop = StopSignal()

    def work() -> None:
        try:
            runs.run(stop)
            signals.news.put(None)
        except BaseException as error:
            signals.news.put(error)

    thread = threading.Thread(target=work, name="dispatcher")
    thread.start()
    what = signals.news.get()
    if isinstance(what, int):
        click.echo("Stopping: the tick under way ends first.")
    stop.set()
    thread.join(SAME_SIGNAL_SECONDS)
    if thread.is_alive():
        signals.forget()  # whoever asks again now wants it to stop at once
        thread.join()
    if isinstance(what, BaseException):
        raise what
