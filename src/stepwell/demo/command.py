"""The command `stepwell demo`. It stands above the other commands: it prints with their tools."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from stepwell.cli.output import Output
from stepwell.cli.target import database_option

SECONDS: Final = 60.0


@click.command()
@click.option(
    "--pace",
    type=click.FloatRange(0.05, 20),
    default=1.0,
    show_default=True,
    help="Factor of all times: 0.5 is twice as fast.",
)
@click.option(
    "--seconds", type=click.FloatRange(0, 86_400), metavar="S",
    help="How long the dashboard stays.  [default: 60 on a terminal, else 0]",
)  # fmt: skip
@click.option("--web/--no-web", default=True, help="Whether it ends with a dashboard, and work to watch.")
@database_option
@click.pass_context
def demo(ctx: click.Context, pace: float, seconds: float | None, web: bool) -> None:
    """See Stepwell at work: trees, retries, a failure, a cancelled branch, priorities, a delay, a graph.

    It runs a dispatcher and three workers on a new SQLite file, or on the database of --db (STEPWELL_DB and
    stepwell.toml are not used), and checks that everything ended as expected: exit code 0 only then.

    On a terminal it prints a link to the dashboard afterwards, and a small shop keeps it busy for a minute; with --db
    or in CI only if --seconds is given.
    """
    from stepwell.demo.play import play

    if ctx.obj.named is not None:
        ctx.obj.refuse_unusable()
        url = ctx.obj.url
    else:
        url = f"sqlite:///{Path(tempfile.mkdtemp(prefix='stepwell-')) / 'demo.db'}"
    output = Output()
    if not play(url, output, pace=pace, program=_program()):
        click.echo("stepwell: the demo did not end as expected; please report this.", err=True)
        ctx.exit(1)
    if seconds is None:
        seconds = SECONDS if ctx.obj.named is None and sys.stdout.isatty() and not os.environ.get("CI") else 0
    if web and seconds:
        from stepwell.demo.live import stay_open

        stay_open(url, output, seconds, _program())


def _program() -> str:
    """How to call this program again."""
    if shutil.which("stepwell") is not None:
        return "stepwell"
    try:
        return str(Path(sys.argv[0]).resolve().relative_to(Path.cwd()))
    except ValueError:
        return sys.argv[0]
