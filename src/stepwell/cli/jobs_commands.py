"""The known jobs: `jobs`, and the warning about an action that none of them has."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

from stepwell.cli.output import Cell, Column, Output
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import NAME_WIDTH, age, clean, shorten, span, to_json

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.look.overview import JobInfo


@click.command()
@database_option
@json_option
@click.pass_obj
def jobs(target: Target, as_json: bool) -> None:
    """List the jobs that workers have recorded, with their settings.

    They apply to every step of the job, whoever creates it, unless the step has its own.
    """
    with target.open() as app:
        found = app.reader.jobs()
        now = app.database.now()
    if as_json:
        click.echo(to_json(found))
        return
    output = Output()
    if not found:
        output.line(("No worker has recorded a job yet. `stepwell up --app module:app` starts one.", "yellow"))
        return
    columns = [
        Column("JOB", folds=True), Column("QUEUE"), Column("RETRIES", right=True), Column("WORKERS", right=True),
        Column("RECORDED", right=True), Column("OTHER SETTINGS", folds=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            shorten(row.name, 60),
            shorten(row.queue or "", NAME_WIDTH),
            str(row.max_retries),
            str(row.workers) if row.workers else ("none", "yellow"),
            age(row.recorded_at, now),
            ", ".join(_other_settings(row)),
        ]
        for row in found
    ]
    output.table(columns, rows)


def _other_settings(row: JobInfo) -> list[str]:
    shown = []
    if row.priority != "default":
        shown.append(f"priority {row.priority}")
    shown += [f"{name} {span(getattr(row, name))}" for name in ("timeout", "cooldown") if getattr(row, name)]
    if row.concurrency_key or row.key_function:
        key = row.concurrency_key or f"by {row.key_function}"
        shown.append(f"key {clean(key)}, limit {row.concurrency_limit}")
    if row.max_running is not None:
        shown.append(f"at most {row.max_running} running")
    if row.weight != 1:
        shown.append(f"weight {row.weight:g}")
    if row.aliases:
        shown.append(f"formerly {', '.join(map(clean, row.aliases))}")
    return shown


def warn_if_unknown(app: Stepwell, action: str) -> None:
    """Warn about an action of no known job. It is not refused: its worker may start later."""
    known = [name for row in app.reader.jobs() for name in (row.name, *row.aliases)]
    if action in known or action in app.jobs:
        return
    near = difflib.get_close_matches(action, known, n=3)
    hint = f"did you mean {' or '.join(map(clean, near))}?" if near else "`stepwell jobs` lists the known ones."
    click.echo(
        f"stepwell: no worker has recorded a job {clean(action)!r} yet; the step waits for one; {hint}", err=True
    )
