"""Workers and limits: `workers`, `limits`."""

from __future__ import annotations

from typing import Any

import click

from stepwell.cli.errors import Misuse
from stepwell.cli.output import Cell, Column, Output
from stepwell.cli.parameters import who_and_why_options
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import age, clean, shorten, to_json

NAMES_SHOWN = 6


@click.command()
@database_option
@json_option
@click.pass_obj
def workers(target: Target, as_json: bool) -> None:
    """List the workers, alive or dead: running steps and slots, queues and jobs."""
    with target.open() as app:
        found = app.workers()
        now = app.database.now()
    if as_json:
        click.echo(to_json(found))
        return
    output = Output()
    if not found:
        output.line(("No workers. `stepwell up --app module:app` starts one.", "yellow"))
        return
    columns = [
        Column("HOST"), Column("PID", right=True), Column("RUNNING", right=True), Column("LAST SEEN", right=True),
        Column("STARTED", right=True), Column("QUEUES", folds=True), Column("JOBS", folds=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            shorten(row.hostname, 30),
            str(row.pid),
            f"{row.running} of {row.slots}",
            age(row.heartbeat_at, now) if row.alive else ("dead", "bold red"),
            age(row.started_at, now),
            _few(row.queues),
            _few(row.actions),
        ]
        for row in found
    ]
    output.table(columns, rows)


def _few(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(map(clean, names[:NAMES_SHOWN])) + more


@click.command()
@click.option("--total", metavar="N", help="Limit all steps; `none` removes the limit.")
@click.option("--queue", "queues", multiple=True, metavar="NAME=N", help="Limit a queue (repeatable).")
@click.option("--action", "actions", multiple=True, metavar="NAME=N", help="Limit a job (repeatable).")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def limits(
    target: Target, /, total: str | None, queues: tuple[str, ...], actions: tuple[str, ...], who: str, why: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Show or set how many steps may run at once on all workers: `stepwell limits --queue candles=4`."""
    asked: list[tuple[Any, str, int | None]] = []
    if total is not None:
        asked.append(("total", "", _number(total, "--total")))
    for kind, named in (("queue", queues), ("action", actions)):
        for text in named:
            name, sign, number = text.rpartition("=")
            if not sign or not name:
                raise Misuse(f"--{kind} {text}: expected NAME=N, for example --{kind} candles=4")
            asked.append((kind, name, _number(number, f"--{kind} {name}")))
    with target.open() as app:
        for kind, name, maximum in asked:
            app.limits.set(kind, name, maximum, who=who, why=why)
        found = app.limits.all()
    if as_json:
        click.echo(to_json([{"kind": kind, "name": name, "maximum": most} for (kind, name), most in found.items()]))
        return
    output = Output()
    if not found:
        output.line("No limits, other than the slots of the workers.")
        return
    output.table(
        [Column("KIND"), Column("NAME"), Column("LIMIT", right=True)],
        ([kind, clean(name) or "all steps", f"{most:,}"] for (kind, name), most in found.items()),
    )


def _number(text: str, option: str) -> int | None:
    if text.lower() == "none":
        return None
    if not text.isdecimal():
        raise Misuse(f"{option}: {text!r}: expected a number of steps or `none`")
    return int(text)
