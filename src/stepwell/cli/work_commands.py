"""Running steps: `worker` runs them, `reaper` recovers those of dead workers, `up` does all of it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stepwell.cli.apps import load_named_app
from stepwell.cli.dispatch_commands import dispatcher_options, dispatching_parts
from stepwell.cli.logs import log_options, start_log
from stepwell.cli.parameters import warn_of_unknown_groups
from stepwell.cli.settings import reaper_options, retention_options, setting_option
from stepwell.cli.target import Target, database_option
from stepwell.cli.text import clean, counted
from stepwell.model.redaction import shown_url

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.run.worker import Worker
    from stepwell.service.config import Config
    from stepwell.service.part import Part

F = TypeVar("F", bound=Callable[..., Any])


def _worker_options(function: F) -> F:
    options = (
        click.option(
            "--app",
            "app_name",
            metavar="MODULE:NAME",
            help="The app with the jobs, for example shop.jobs:app.  [env var: STEPWELL_APP]",
        ),
        setting_option("--queues", "worker.queues", metavar="A,B", help="Only these queues, the preferred ones first."),
        click.option(
            "--slots",
            type=click.IntRange(min=1),
            help="Steps that run at once.  [default: one per core, at least 2]",
        ),
        click.option(
            "--executor",
            type=click.Choice(["process", "thread", "async"]),
            default="process",
            show_default=True,
            help="Where steps run: a process per slot, threads, or one event loop.",
        ),
        click.option(
            "--strategy",
            type=click.Choice(["oldest-first", "by-weight"]),
            default="oldest-first",
            show_default=True,
            help="Which steps get free slots: the oldest, or a share per job by `weight`.",
        ),
        setting_option(
            "--grace",
            "worker.grace_seconds",
            metavar="S",
            show_default=True,
            help="Seconds that running steps have to end after a signal.",
        ),
        setting_option(
            "--lease",
            "worker.lease_seconds",
            metavar="S",
            show_default=True,
            help="Seconds without a heartbeat after which this worker counts as dead and its steps go to others.",
        ),
        setting_option(
            "--max-memory",
            "worker.max_memory",
            metavar="SIZE",
            help="Memory limit of one slot's process, for example 512M.  [default: none]",
        ),
        log_options,
        database_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@click.option("--group", "groups", multiple=True, help="Claim only steps of this group (repeatable).")
@_worker_options
@click.pass_obj
def worker(target: Target, /, **options: Any) -> None:
    """Run the steps of an app until stopped (Ctrl-C, SIGTERM); a second signal stops at once.

    It claims only steps of the app's jobs. A dispatcher and a reaper must run as well: `stepwell up` runs all three.
    """
    _work(target, options)


@click.command()
@dispatcher_options
@click.option("--web/--no-web", default=True, show_default=True, help="Serve the dashboard and the HTTP API, too.")
@_worker_options
@click.pass_obj
def up(target: Target, /, groups: tuple[str, ...], **options: Any) -> None:
    """Run dispatcher, worker, reaper, scheduler, retention and dashboard together: all that an app needs.

    Any number may run on one database; on PostgreSQL, on any number of machines. With --group, it dispatches and claims
    only steps of those groups. The dashboard is served as section [web] of stepwell.toml says, on 127.0.0.1 by default.
    """
    options["groups"] = groups or target.config.worker.groups
    dispatched = groups or target.config.dispatcher.groups

    def beside(app: Stepwell) -> list[Part]:
        parts = _parts_beside_worker(app, target.config, dispatched, options["lease"])
        return [*parts, *_web_parts(app, target.config)] if options["web"] else parts

    _work(target, options, beside)


def _parts_beside_worker(app: Stepwell, config: Config, groups: tuple[str, ...], lease_seconds: float) -> list[Part]:
    _, dispatching = dispatching_parts(app, config, groups, lease_seconds)
    app.retention.options = retention_options(config, app.retention_options)
    beside = [app.parts.reaper(**reaper_options(config)), app.parts.scheduler(), app.parts.retention()]
    return [*dispatching, *beside, *app.parts.of_main_processes()]


def _web_parts(app: Stepwell, config: Config) -> list[Part]:
    from stepwell.cli.web_commands import web_part

    # Several may run on one machine: if no port was configured, the second one takes any that is free.
    server = web_part(app, config, asdict(config.web), or_any_port=config.origin("web.port").kind == "default")
    return [server, server.operations_part()]


@click.command()
@click.option("--once", is_flag=True, help="Run one round and exit.")
@log_options
@database_option
@click.pass_obj
def reaper(target: Target, /, once: bool, **log: Any) -> None:
    """Recover the steps of dead workers and report groups that make no progress. Any number may run at once."""
    from stepwell.cli.crews import crew_of

    start_log(target.config, **log)
    options = reaper_options(target.config)
    with target.open() as app:
        if once:
            reaped = app.reaper(**options).round()
            click.echo(
                f"{counted(len(reaped.rescued), 'step')} rescued, {len(reaped.poisoned)} failed as poison, "
                f"{len(reaped.recovered)} returned to Pending unclaimed, "
                f"{counted(len(reaped.leases_released), 'lease')} released."
            )
            return
        with crew_of([app.parts.reaper(**options)], stopping="Stopping after the current round.") as crew:
            click.echo(f"Reaping on {target}. Ctrl-C or SIGTERM stops it.")
            crew.run()
    click.echo(f"Stopped: {crew.report()}." if crew.report() else "Stopped.")


def _work(
    target: Target, options: dict[str, Any], parts_beside: Callable[[Stepwell], list[Part]] | None = None
) -> None:
    from stepwell.cli.crews import crew_of
    from stepwell.share.strategies import DivideTotalValueEqually

    log = start_log(
        target.config,
        verbose=options["verbose"],
        log_format=options["log_format"],
        log_file=options["log_file"],
    )
    app = load_named_app(target, options["app_name"], options["verbose"])
    log.add_app(app)
    warn_of_unknown_groups(app, options["groups"], "this worker")
    slots = options["slots"] or max(2, os.cpu_count() or 2)
    made = app.worker(
        queues=options["queues"],
        groups=options["groups"],
        slots=slots,
        executor=options["executor"],
        app_name=options["app_name"],
        max_memory=options["max_memory"],
        strategy=DivideTotalValueEqually() if options["strategy"] == "by-weight" else None,
        alive_seconds=options["lease"],
        grace_seconds=options["grace"],
        rescues=target.config.reaper.rescues,
        logs=log.options,
    )
    stopping = f"Stopping: running steps have {options['grace']:g} s to end; a second signal stops at once."
    beside = [] if parts_beside is None else parts_beside(app)
    with crew_of([made, *beside], stopping=stopping) as crew:
        _announce(app, made, options, title="Working" if parts_beside is None else "Up")
        if not target.is_on(app.database.url) and shown_url(app.database.url) == app.database.url:
            click.echo(f"For commands in another terminal: export STEPWELL_DB={quote(app.database.url)}")
        for part in beside:
            if part.name == "web":
                _announce_web(part, target.config)
        gc.freeze()  # as in the slots: imported modules stay
        crew.run()
    click.echo(f"Stopped: {crew.report()}.")


def _announce_web(part: Part, config: Config) -> None:
    from stepwell.cli.web_commands import announce_web
    from stepwell.web.server import WebPart

    assert isinstance(part, WebPart)
    announce_web(part, read_only=config.web.read_only)


def _announce(app: Stepwell, made: Worker, options: dict[str, Any], title: str) -> None:
    kind = {"process": "a process each", "thread": "threads", "async": "on one event loop"}[options["executor"]]
    click.echo(
        f"{title}: {clean(options['app_name'])} on {shown_url(app.database.url)}, "
        f"{counted(made.row.slots, 'slot')} ({kind}), as {made.row.id}."
    )
    click.echo(f"Queues: {', '.join(map(clean, made.row.queues))}.")
    if made.row.groups:
        click.echo(f"Groups: {', '.join(map(clean, made.row.groups))}.")
    click.echo(f"Jobs: {', '.join(map(clean, sorted(made.row.actions)))}.")
    if options["strategy"] == "by-weight":
        click.echo("Free slots are shared between jobs by weight.")
    if not app.breaker.state().dispatching:
        click.echo("Dispatching is paused (`stepwell resume`); no new steps start.")
    if title == "Up":
        click.echo(f"Retention: {app.retention.options} (retention.keep_days).")
    click.echo("Ctrl-C or SIGTERM stops it; a second signal stops it at once.")
