"""The command line: `stepwell COMMAND`. A command is loaded when it is called, so that `--help` starts fast."""

from __future__ import annotations

import difflib
import logging
import sys
from importlib import import_module
from typing import Any, Final

import click

from stepwell import __version__
from stepwell.cli.errors import in_one_line
from stepwell.cli.target import DEFAULT_URL, Target

# Heading → command → (its module in this package, what `--help` says about it).
COMMANDS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Start here": {
        "demo": ("demo", "Watch Stepwell at work, in a few seconds."),
        "migrate": ("migrate", "Create the schema, or bring it up to date."),
        "enqueue": ("enqueue", "Create a step."),
    },
    "Run": {
        "up": ("work", "Dispatcher, worker and reaper in one command."),
        "worker": ("work", "Run the steps of an app until told to stop."),
        "reaper": ("work", "Bring back the steps of dead workers."),
        "dispatcher": ("dispatch", "Move steps forward until told to stop."),
        "dispatch": ("dispatch", "Tick the groups that have work, then end."),
    },
    "Look": {
        "steps": ("look", "The newest steps, with filters."),
        "show": ("look", "All of one step, with its history."),
        "tree": ("look", "A step with everything below it."),
        "explain": ("look", "Why a step is not running."),
        "stats": ("overview", "Counts by state, the breaker, the workers."),
        "groups": ("overview", "The groups: open work, locks, last ticks."),
        "ticks": ("overview", "The tick log: what the dispatchers did."),
        "workers": ("workers", "The workers: what they serve and run."),
    },
    "Act": {
        "retry": ("act", "Bring a failed or cancelled step back."),
        "cancel": ("act", "Cancel a step and all below it."),
        "skip": ("act", "Conclude a step without running it."),
        "pause": ("breaker", "Stop dispatching: all, or one workflow."),
        "resume": ("breaker", "Dispatch again: all, or one workflow."),
        "limits": ("workers", "How many steps may run at once."),
        "drain": ("breaker", "Pause, and wait until nothing is in flight."),
    },
    "Watch over it": {
        "safe-to-restart": ("breaker", "Say (and exit 0) if workers can be restarted."),
        "doctor": ("doctor", "Check the promises, the marks, the workers."),
        "completion": ("completion", "Print the completion script of a shell."),
    },
}


class LazyGroup(click.Group):
    """Knows its commands by name and help line; imports one only when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for section in COMMANDS.values():
            if cmd_name in section:
                module = import_module(f"{__name__}.{section[cmd_name][0]}_commands")
                command: click.Command = getattr(module, cmd_name.replace("-", "_"))
                command.short_help = section[cmd_name][1]
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], names, n=3)
            hint = f"Did you mean {' or '.join(near)}?" if near else "`stepwell --help` lists the commands."
            ctx.fail(f"There is no command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, section in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(15), line) for name, (_, line) in section.items()])

    def invoke(self, ctx: click.Context) -> Any:
        with in_one_line():
            return super().invoke(ctx)


@click.group("stepwell", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--db",
    metavar="URL",
    envvar="STEPWELL_DB",
    default=DEFAULT_URL,
    show_default=True,
    show_envvar=True,
    help="The database: sqlite:///file.db or postgresql://… (also after the command).",
)
@click.version_option(__version__, prog_name="stepwell", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context, db: str) -> None:
    """Stepwell: background work as rows in a database that people can read.

    STEP is the id or the uuid of a step. Commands that look or act take --json.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a sign still gets the rest of the line
            stream.reconfigure(errors="replace")
    for name in ("stepwell", "psycopg.pool"):  # commands say themselves what there is to say
        if not (logger := logging.getLogger(name)).handlers:
            logger.addHandler(logging.NullHandler())
    chosen = ctx.get_parameter_source("db") is click.core.ParameterSource.COMMANDLINE
    ctx.obj = Target(db, chosen)
