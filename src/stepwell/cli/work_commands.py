"""Running steps: `worker` runs them, `reaper` brings back what died, `up` does all of it."""

from __future__ import annotations

import gc
import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stepwell.cli.errors import Misuse, unreachable
from stepwell.cli.logs import errors_of_the_pool, log_to_stderr
from stepwell.cli.target import Target, database_option
from stepwell.cli.text import clean, counted, without_password
from stepwell.model.errors import AppNotFound, DatabaseUnavailable

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.run.worker import Worker

F = TypeVar("F", bound=Callable[..., Any])

_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _bytes(ctx: click.Context, parameter: click.Parameter, value: str) -> int:
    """512M, 2G, or plain bytes."""
    number, unit = value.strip().lower().removesuffix("b"), ""
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], number[-1]
    if not number.isdecimal():
        raise click.BadParameter(f"{value!r} is not a size: say 512M or 2G")
    return int(number) * _UNITS[unit]


def _worker_options(function: F) -> F:
    options = (
        click.option(
            "--app",
            "app_name",
            envvar="STEPWELL_APP",
            show_envvar=True,
            metavar="MODULE:NAME",
            help="The app with the jobs, for example shop.jobs:app.",
        ),
        click.option("--queues", metavar="A,B", help="Only these queues, in this order of preference."),
        click.option(
            "--slots",
            type=click.IntRange(min=1),
            help="How many steps run at once (by default one per core).",
        ),
        click.option(
            "--executor",
            type=click.Choice(["process", "thread", "async"]),
            default="process",
            show_default=True,
            help="A process for every slot, threads, or one event loop.",
        ),
        click.option(
            "--strategy",
            type=click.Choice(["oldest-first", "by-weight"]),
            default="oldest-first",
            show_default=True,
            help="Who gets the free slots: the oldest steps, or every job its share by `weight`.",
        ),
        click.option(
            "--grace",
            type=click.FloatRange(min=0.0),
            default=30.0,
            show_default=True,
            help="Seconds for running steps after a signal.",
        ),
        click.option(
            "--lease",
            type=click.FloatRange(min=0.5),
            default=30.0,
            show_default=True,
            help="Seconds without a heartbeat after which this worker is taken for dead and its steps go to others.",
        ),
        click.option(
            "--max-memory",
            callback=_bytes,
            default="0",
            metavar="SIZE",
            help="What one process may use, for example 512M.",
        ),
        click.option(
            "-v", "--verbose", is_flag=True, help="Write a log to stderr, and the traceback of an app that fails."
        ),
        database_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@_worker_options
@click.pass_obj
def worker(target: Target, /, **options: Any) -> None:
    """Run the steps of an app until told to stop (Ctrl-C, SIGTERM); a second signal stops at once.

    It claims only actions that the app knows. A dispatcher and a reaper have to run somewhere, too: `stepwell up` runs
    all three.
    """
    _work(target, options, whole=False)


@click.command()
@_worker_options
@click.pass_obj
def up(target: Target, /, **options: Any) -> None:
    """Dispatcher, worker and reaper in one command: all that an app needs.

    Any number of these may run on one database; on PostgreSQL, on any number of machines.
    """
    _work(target, options, whole=True)


@click.command()
@click.option("--once", is_flag=True, help="Look once and end.")
@click.option("-v", "--verbose", is_flag=True, help="Write a log to stderr.")
@database_option
@click.pass_obj
def reaper(target: Target, once: bool, verbose: bool) -> None:
    """Bring back the steps of dead workers, and say when a group makes no progress. Any number may run at once."""
    from stepwell.cli.crews import crew_of

    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    with target.open() as app:
        if once:
            reaped = app.reaper().round()
            click.echo(
                f"{counted(len(reaped.rescued), 'step')} rescued, {len(reaped.poisoned)} given up as poison, "
                f"{len(reaped.recovered)} recovered, {len(reaped.leases_released)} let go."
            )
            return
        with crew_of([app.reaper_part()], stopping="Stopping: the round under way ends first.") as crew:
            click.echo(f"Watching over {target}. Ctrl-C or SIGTERM stops it.")
            crew.run()
    click.echo(f"Stopped: {crew.report()}." if crew.report() else "Stopped.")


def _work(target: Target, options: dict[str, Any], *, whole: bool) -> None:
    from stepwell.cli.crews import crew_of
    from stepwell.share.strategies import DivideTotalValueEqually, SortByDateCreated

    log_to_stderr(logging.INFO if options["verbose"] else logging.WARNING)
    app = _load(target, options["app_name"], options["verbose"])
    slots = options["slots"] or max(2, os.cpu_count() or 2)
    queues = [queue.strip() for queue in (options["queues"] or "").split(",") if queue.strip()]
    if options["queues"] is not None and not queues:
        raise Misuse("--queues names none: leave it out to serve all of them")
    made = app.worker(
        queues=queues,
        slots=slots,
        executor=options["executor"],
        app_name=options["app_name"],
        max_memory=options["max_memory"],
        strategy=DivideTotalValueEqually() if options["strategy"] == "by-weight" else SortByDateCreated(),
        alive_seconds=options["lease"],
        grace_seconds=options["grace"],
    )
    stopping = f"Stopping: running steps have up to {options['grace']:g} s; a second signal stops at once."
    with crew_of(app.parts(made) if whole else [made], stopping=stopping) as crew:
        _announce(app, made, options, whole)
        gc.freeze()  # as in the slots: what was imported stays
        crew.run()
    click.echo(f"Stopped: {crew.report()}.")


def _load(target: Target, name: str | None, verbose: bool) -> Stepwell:
    from stepwell.service.locate import load_app

    if not name:
        raise Misuse("which app? Say --app module:variable (or set STEPWELL_APP), for example --app shop.jobs:app")
    sys.path.insert(0, os.getcwd())
    try:
        with errors_of_the_pool() as met:
            app = load_app(name).open()
    except DatabaseUnavailable as error:
        if not type(error.__cause__).__module__.startswith("psycopg"):
            raise  # SQLite says itself what is the matter
        raise unreachable([error.__cause__, *met][-1]) from error
    except AppNotFound as error:
        if error.__cause__ is None:
            raise Misuse(str(error)) from error
        if not verbose:
            raise Misuse(f"{error} (-v shows the traceback)") from error
        click.echo(clean("".join(traceback.format_exception(error.__cause__)), lines=True), err=True)
        raise Misuse(str(error)) from error
    if target.chosen and target.url != app.database.url:
        raise Misuse(f"--db says {target}, but {name} is on {without_password(app.database.url)}: leave --db out")
    if not app.jobs.actions():
        raise Misuse(f"{name} has no jobs: nothing could be run; is the module imported that defines them?")
    return app


def _announce(app: Stepwell, made: Worker, options: dict[str, Any], whole: bool) -> None:
    kind = {"process": "a process each", "thread": "threads", "async": "on one event loop"}[options["executor"]]
    click.echo(
        f"{'Up' if whole else 'Working'}: {clean(options['app_name'])} on {without_password(app.database.url)}, "
        f"{counted(made.row.slots, 'slot')} ({kind}), as {made.row.id}."
    )
    click.echo(f"Queues: {', '.join(map(clean, made.row.queues))}.")
    click.echo(f"Jobs: {', '.join(map(clean, sorted(made.row.actions)))}.")
    if options["strategy"] == "by-weight":
        click.echo("Free slots are shared out by the weights of the jobs.")
    if not app.breaker.state().dispatching:
        click.echo("Dispatching is paused at present: nothing new begins until `stepwell resume`.")
    click.echo("Ctrl-C or SIGTERM stops it; a second one stops it at once.")
