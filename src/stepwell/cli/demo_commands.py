"""Watching it work: `demo`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from stepwell.cli.output import Output
from stepwell.cli.target import database_option


@click.command()
@click.option("--pace", type=click.FloatRange(0.05, 20), default=1.0, show_default=True, help="0.5: twice as fast.")
@database_option
@click.pass_context
def demo(ctx: click.Context, pace: float) -> None:
    """Watch Stepwell at work: trees, retries, a failure, a cancelled branch, priorities, a delay, a graph.

    Everything is real: a fresh SQLite file (or the database given by --db; STEPWELL_DB is not used for this), a
    dispatcher and three workers. Exit code 0 only if all of it ended as the story says.
    """
    from stepwell.demo import play

    if ctx.obj.named is not None:
        ctx.obj.refuse_useless()
        url = ctx.obj.url
    else:
        url = f"sqlite:///{Path(tempfile.mkdtemp(prefix='stepwell-')) / 'demo.db'}"
    as_told = play(url, Output(), pace=pace, program=_program())
    if not as_told:
        click.echo("stepwell: the demo did not end as its story says; please report this.", err=True)
    ctx.exit(0 if as_told else 1)


def _program() -> str:
    """How to call this program again."""
    if shutil.which("stepwell") is not None:
        return "stepwell"
    try:
        return str(Path(sys.argv[0]).resolve().relative_to(Path.cwd()))
    except ValueError:
        return sys.argv[0]
