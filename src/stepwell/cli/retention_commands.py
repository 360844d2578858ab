"""Retention by hand: `prune` deletes workflows that ended long ago, `archive` moves them to the archive."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stepwell.cli.errors import Misuse
from stepwell.cli.output import Output
from stepwell.cli.parameters import who_and_why_options
from stepwell.cli.settings import retention_options, setting_option
from stepwell.cli.subjects import moment
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import counted, to_json

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.operate.retention import Removed

F = TypeVar("F", bound=Callable[..., Any])


def _options(function: F) -> F:
    options = (
        setting_option(
            "--keep-days",
            "retention.keep_days",
            metavar="DAYS",
            help="Keep what ended within the last DAYS.  [default: as configured, else as `up` runs, else 30]",
        ),
        click.option("--before", type=moment, metavar="TIME", help="Instead: what ended before this time (ISO 8601)."),
        setting_option(
            "--key-days",
            "retention.key_days",
            metavar="DAYS",
            help="Keep workflows with an idempotency key for DAYS after their creation.  [default: as configured]",
        ),
        click.option("--preview", "--dry-run", "dry_run", is_flag=True, help="Only count; change nothing."),
        who_and_why_options,
        database_option,
        json_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@setting_option(
    "--archive-days",
    "retention.archive_days",
    metavar="DAYS",
    help="Also delete what was archived more than DAYS ago.  [default: as configured, else 365]",
)
@_options
@click.pass_obj
def prune(target: Target, /, archive_days: float | None, **options: Any) -> None:
    """Delete settled workflows that ended long ago, with their history and logs, and old entries of the archive.

    A workflow is deleted as a whole or not at all. It can be interrupted at any time, and run beside `stepwell up`.
    """
    _run(target, options, "deleted", lambda app, given: app.retention.prune(archive_days=archive_days, **given))


@click.command()
@_options
@click.pass_obj
def archive(target: Target, /, **options: Any) -> None:
    """Move settled workflows that ended long ago to the table `steps_archive`.

    `stepwell show` still shows their steps. `prune` deletes them from there, too.
    """
    _run(target, options, "archived", lambda app, given: app.retention.archive(**given))


def _run(
    target: Target, options: dict[str, Any], done: str, work: Callable[[Stepwell, dict[str, Any]], Removed]
) -> None:
    as_json = options.pop("as_json")
    if options["before"] is not None and options["keep_days"] is not None:
        raise Misuse("--before and --keep-days exclude each other")
    output = Output()
    with target.open() as app, _progress(output, done) as progress:
        app.retention.options = retention_options(target.config, _recorded(app))
        started = app.database.now()
        removed = work(app, {**options, "progress": progress})
        seconds = (app.database.now() - started).total_seconds()
    if as_json:
        click.echo(to_json({**asdict(removed), "dry_run": options["dry_run"], "seconds": seconds}))
        return
    would = "would be " if options["dry_run"] else ""
    output.line(
        f"{counted(removed.workflows, 'workflow')} with {counted(removed.steps, 'step')} {would}{done}"
        + (f", {counted(removed.from_archive, 'step')} deleted from the archive" if removed.from_archive else "")
        + ("." if options["dry_run"] else f" in {seconds:.1f} s.")
    )
    if removed.kept_for_keys:
        output.line(
            f"{counted(removed.kept_for_keys, 'workflow')} kept because an idempotency key, or the identity of the "
            "workflow, must still find it (--key-days, retention.key_days)."
        )


def _recorded(app: Stepwell) -> Any:
    """What `stepwell up` runs with on this database, as long as the configuration says nothing else."""
    status, options = app.retention.status(), app.retention_options
    if not status.has_run:
        return options
    return replace(options, keep_days=float("inf") if status.keep_days is None else status.keep_days)


@contextmanager
def _progress(output: Output, done: str) -> Iterator[Callable[[Removed], None] | None]:
    """On a terminal, a line that changes; elsewhere nothing until the end."""
    if output.rich is None or not sys.stdout.isatty():
        yield None
        return
    with output.rich.status(f"nothing {done} yet") as status:
        yield lambda removed: status.update(f"{removed.steps:,} steps in {removed.workflows:,} workflows {done}")
