"""The command `stepwell demo`. It stands above the other commands: it prints with their tools."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from stepwell.cli.output import Output
from stepwell.cli.target import database_option


@click.command()
@click.option("--pace", type=click.FloatRange(0.05, 20), default=1.0, show_default=True, help="0.5 is twice as fast.")
@database_option
@click.pass_context
def demo(ctx: click.Context, pace: float) -> None:
    """See Stepwell at work: trees, retries, a failure, a cancelled branch, priorities, a delay, a graph.

    It runs a dispatcher and three workers on a new SQLite file, or on the database of --db (STEPWELL_DB and
    stepwell.toml are not used). Exit code 0 only if everything ended as expected.
    """
    from stepwell.demo import play

    if ctx.obj.named is not None:
        ctx.obj.refuse_unusable()
        url = ctx.obj.url
    else:
        url = f"sqlite:///{Path(tempfile.mkdtemp(prefix='stepwell-')) / 'demo.db'}"
    as_expected = play(url, Output(), pace=pace, program=_program())
    if not as_expected:
        click.echo("stepwell: the demo did not end as expected; please report this.", err=True)
    ctx.exit(0 if as_expected else 1)


def _program() -> str:
    """How to call this program again."""
    if shutil.which("stepwell") is not None:
        return "stepwell"
    try:
        return str(Path(sys.argv[0]).resolve().relative_to(Path.cwd()))
    except ValueError:
        return sys.argv[0]
