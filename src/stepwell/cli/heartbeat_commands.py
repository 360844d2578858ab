"""Main processes: `heartbeat` for cron, `processes` and `shares` for people."""

from __future__ import annotations

from typing import Any

import click

from stepwell.cli.apps import load_named_app
from stepwell.cli.logs import log_options, start_log
from stepwell.cli.output import Cell, Column, Output
from stepwell.cli.settings import setting_option
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import age, shorten, to_json


@click.command()
@click.argument("kind", type=click.Choice(["queue", "execute", "reschedule"]))
@click.option("--app", "app_name", metavar="MODULE:NAME", help="The app with the jobs.  [env var: STEPWELL_APP]")
@click.option(
    "--executor",
    type=click.Choice(["process", "thread", "async"]),
    default="process",
    show_default=True,
    help="Where `execute` runs tasks.",
)
@click.option("--slots", type=click.IntRange(min=1), help="Tasks of this process at once.  [default: as configured]")
@setting_option(
    "--lease",
    "worker.lease_seconds",
    metavar="S",
    show_default=True,
    help="Seconds after which the tasks of an `execute` that has died count as dead.",
)
@setting_option(
    "--max-memory",
    "worker.max_memory",
    metavar="SIZE",
    help="Memory limit of one task's process, for example 512M.  [default: none]",
)
@log_options
@database_option
@click.pass_obj
def heartbeat(
    target: Target,
    /,
    kind: str,
    app_name: str | None,
    executor: Any,
    slots: int | None,
    lease: float,
    max_memory: int,
    verbose: bool,
    **log: Any,
) -> None:
    """Beat for the configured run time, then start nothing new and wait until all tasks have ended.

    Made for cron: any number of each kind may run at once. `stepwell up` does all three without cron. The app
    configures its main processes with `app.main_processes.configure(…)`.
    """
    started = start_log(target.config, verbose=verbose, **log)
    app = load_named_app(target, app_name, verbose)
    started.add_app(app)
    with app:
        options: dict[str, Any] = {
            "executor": executor,
            "app_name": app_name,
            "alive_seconds": lease,
            "max_memory": max_memory,
            "logs": started.options,
        }
        if slots is not None:
            options["slots"] = slots
        done = app.main_processes.heartbeat(kind, **options).heartbeat()
    click.echo(f"Done: {done}." if done else "Done.")


@click.command()
@click.option(
    "--failures", type=click.IntRange(0, 1_000), default=5, show_default=True, help="Failed queueings to show."
)
@database_option
@json_option
@click.pass_obj
def processes(target: Target, failures: int, as_json: bool) -> None:
    """List the tasks of main processes with their states, and the newest queueings that failed."""
    with target.open() as app:
        tasks = app.main_processes.tasks()
        failed = app.main_processes.failed_queueings(limit=failures) if failures else []
        now = app.database.now()
    if as_json:
        click.echo(to_json({"tasks": tasks, "failed_queueings": failed}))
        return
    output = Output()
    if not tasks:
        output.line("No task has been queued yet.")
    else:
        columns = [Column("MAIN PROCESS"), Column("CLASS"), Column("PART"), Column("STATE"), Column("STEP", right=True),
                   Column("QUEUED", right=True)]  # fmt: skip
        rows: list[list[Cell]] = [
            [
                shorten(task.main_process, 30),
                shorten(task.task_class, 40),
                task.part,
                task.state,
                str(task.step_id or ""),
                age(task.queued_at, now),
            ]
            for task in tasks
        ]
        output.table(columns, rows)
    if failed:
        output.heading("Failed queueings")
        output.table(
            [Column("MAIN PROCESS"), Column("WHEN", right=True), Column("QUEUED SINCE"), Column("WHY", folds=True)],
            (
                [
                    shorten(row.main_process, 30),
                    age(row.at, now),
                    "yes" if row.resolved_at is not None else "no",
                    shorten(row.message, 500),
                ]
                for row in failed
            ),
        )


@click.command()
@click.option("--runs", type=click.IntRange(1, 100_000), default=2_000, show_default=True, help="Latest runs to count.")
@database_option
@json_option
@click.pass_obj
def shares(target: Target, runs: int, as_json: bool) -> None:
    """Compare the share of the slots that each task class was promised by its priority with what it got.

    A class gets at least one slot while there are enough. The two are comparable for a time in which every class had
    tasks waiting.
    """
    with target.open() as app:
        found = app.main_processes.shares(runs)
    if as_json:
        click.echo(to_json(found))
        return
    output = Output()
    if not found:
        output.line("No task has run yet.")
        return
    columns = [Column("CLASS"), Column("PRIORITY", right=True), Column("RUNS", right=True),
               Column("PROMISED", right=True), Column("DELIVERED", right=True)]  # fmt: skip
    output.table(
        columns,
        (
            [
                shorten(share.task_class, 40),
                "" if share.priority is None else f"{share.priority:g}",
                f"{share.runs:,}",
                "" if share.promised is None else f"{share.promised:.1%}",
                f"{share.delivered:.1%}",
            ]
            for share in found
        ),
    )
