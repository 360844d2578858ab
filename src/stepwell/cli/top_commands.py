"""The live view: `top`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from stepwell.cli.output import Output, rich_table, rich_text
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import to_json
from stepwell.cli.top_figures import Snapshot, take_snapshot
from stepwell.cli.top_view import Section, fitted, head, one_line, sections

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType

    from stepwell import Stepwell


@click.command()
@click.option("--once", is_flag=True, help="Print the figures once and exit.")
@click.option(
    "--interval", type=click.FloatRange(0.1, 3_600), default=1.0, show_default=True, metavar="S",
    help="Seconds between two updates.",
)  # fmt: skip
@database_option
@json_option
@click.pass_obj
def top(target: Target, once: bool, interval: float, as_json: bool) -> None:
    """Watch totals, pace, running steps, classes, hosts and failures until Ctrl-C.

    Without a terminal it prints a line per interval. --json prints the figures once.
    """
    output = Output()
    with target.open() as app:
        if as_json:
            click.echo(to_json(take_snapshot(app)))
        elif once:
            _write(output, take_snapshot(app), str(target))
        elif output.rich is None or not sys.stdout.isatty():
            _watch(app, interval, lambda now, _: output.line(*one_line(now)))
        else:
            _watch_live(app, output.rich, interval, str(target))


def _write(output: Output, now: Snapshot, database: str) -> None:
    for line in head(now, database):
        output.line(*line)
    for section in sections(now):
        output.heading(section.title)
        if section.rows:
            output.table(section.columns, section.rows)
        else:
            output.line((section.empty, "dim"))


def _watch_live(app: Stepwell, console: Console, interval: float, database: str) -> None:
    from rich.live import Live

    with Live(console=console, screen=True, auto_refresh=False) as live:
        _watch(
            app,
            interval,
            lambda now, problem: live.update(_picture(console, now, database, problem), refresh=True),
        )


def _picture(console: Console, now: Snapshot, database: str, problem: str | None) -> Group:
    from rich.console import Group
    from rich.text import Text

    above = [rich_text(line) for line in head(now, database, problem)]
    for line in above:
        line.no_wrap, line.overflow = True, "ellipsis"
    tables = fitted(sections(now), console.height - len(above) - 1)
    return Group(*above, *(Group(*_rich_section(section)) for section in tables), Text("Ctrl-C ends", "bright_black"))


def _rich_section(section: Section) -> list[RenderableType]:
    if not section.rows:
        return ["", rich_text((section.empty, "bright_black"))]
    return ["", rich_table(section.columns, section.rows, rule=False)]


def _watch(app: Stepwell, interval: float, show: Callable[[Snapshot, str | None], None]) -> None:
    from stepwell.cli.top_part import TopPart
    from stepwell.service.crew import Crew

    part = TopPart(app, interval, show)
    with Crew([part]) as crew:
        part.on_end = crew.stop
        crew.run()
