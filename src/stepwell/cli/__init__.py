"""The command line: `stepwell COMMAND`. A command is loaded when it is called, so that `--help` starts fast."""

from __future__ import annotations

import difflib
import errno
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from stepwell import __version__
from stepwell.cli.errors import Warnings, in_one_line, show_as_json
from stepwell.cli.target import DEFAULT_URL, Target
from stepwell.model.errors import ConfigError

# Heading → command → (its module, in this package or by its whole name; its line in `--help`).
COMMANDS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Start here": {
        "init": ("init", "Create a small project that runs."),
        "demo": ("stepwell.demo.command", "See Stepwell at work, in a few seconds."),
        "migrate": ("migrate", "Create or upgrade the schema."),
        "enqueue": ("enqueue", "Create a step."),
    },
    "Run": {
        "up": ("work", "Run a worker with everything that it needs."),
        "web": ("web", "Serve the dashboard and the HTTP API."),
        "worker": ("work", "Run the steps of an app until stopped."),
        "reaper": ("work", "Recover the steps of dead workers."),
        "scheduler": ("schedules", "Decide the slots of schedules until stopped."),
        "dispatcher": ("dispatch", "Dispatch steps until stopped."),
        "dispatch": ("dispatch", "Tick the groups that have work, then exit."),
        "heartbeat": ("heartbeat", "Queue, execute or reschedule main processes."),
    },
    "Inspect": {
        "top": ("top", "Watch it live: pace, running steps, failures."),
        "stats": ("overview", "Show counts by state, breaker and workers."),
        "steps": ("look", "List steps, newest first."),
        "show": ("look", "Show a step or a workflow, also at an earlier time."),
        "tree": ("look", "Show a step or a workflow as a tree."),
        "explain": ("look", "Explain why a step or a workflow is waiting."),
        "workflows": ("workflows", "List, start, check and control declared workflows."),
        "schedules": ("schedules", "List, add, change and run schedules."),
        "processes": ("heartbeat", "List the tasks of main processes."),
        "shares": ("heartbeat", "Compare promised and delivered shares."),
        "groups": ("overview", "List groups: unfinished steps, last ticks, locks."),
        "ticks": ("overview", "Show the tick log."),
        "workers": ("workers", "List workers: slots, queues and jobs."),
        "jobs": ("jobs", "List the known jobs with their settings."),
    },
    "Act": {
        "retry": ("act", "Retry failed, stopped or cancelled steps."),
        "cancel": ("act", "Cancel steps and their descendants."),
        "skip": ("act", "Conclude steps without running them."),
        "pause": ("breaker", "Pause dispatching, or one workflow."),
        "resume": ("breaker", "Resume dispatching, or one workflow."),
        "operations": ("operations", "List, show, start and undo what operators do."),
        "limits": ("workers", "Show or set how many steps may run at once."),
    },
    "Maintain": {
        "drain": ("breaker", "Pause and wait until nothing is in flight."),
        "safe-to-restart": ("breaker", "Exit 0 if workers can be restarted."),
        "prune": ("retention", "Delete workflows that ended long ago."),
        "archive": ("retention", "Archive workflows that ended long ago."),
        "doctor": ("doctor", "Check invariants, bookkeeping and workers."),
        "completion": ("completion", "Print a shell completion script."),
    },
}


class LazyGroup(click.Group):
    """Knows its commands by name and help line; imports one only when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for section in COMMANDS.values():
            if cmd_name in section:
                module = section[cmd_name][0]
                loaded = import_module(module if "." in module else f"{__name__}.{module}_commands")
                command: click.Command = getattr(loaded, cmd_name.replace("-", "_"))
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
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, section in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(15), line) for name, (_, line) in section.items()])

    def main(self, args: Sequence[str] | None = None, *rest: Any, **settings: Any) -> Any:
        """Errors of a command with --json are JSON, too: also those that click finds before the command runs."""
        args = list(sys.argv[1:] if args is None else args)
        if "--json" not in args or not settings.get("standalone_mode", True):
            return super().main(args, *rest, **settings)
        try:
            code = super().main(args, *rest, **{**settings, "standalone_mode": False})
        except click.ClickException as error:
            show_as_json(error)
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            code = 1
        except OSError as error:
            if error.errno != errno.EPIPE:  # whoever read the output is gone
                raise
            code = 1
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        with in_one_line():
            return super().invoke(ctx)


@click.group("stepwell", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--db",
    metavar="URL",
    help="The database: sqlite:///file.db or postgresql://… (also after the command).  "
    f"[env var: STEPWELL_DB; default: {DEFAULT_URL}]",
)
@click.version_option(__version__, prog_name="stepwell", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context, db: str | None) -> None:
    """Stepwell: background work as rows in a database.

    STEP is the id or the uuid of a step, WORKFLOW the id of a workflow; the beginning of a uuid is enough. Commands
    read stepwell.toml and the environment (docs/configuration.md). Exit codes: 0 done, 1 not done, 2 called wrongly.
    """
    _open_standard_files()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character still gets the rest of the line
            stream.reconfigure(errors="replace")
    for name in ("stepwell", "psycopg.pool"):  # commands report problems themselves
        logging.getLogger(name).handlers[:] = [logging.NullHandler()]
    logging.getLogger("stepwell.names").handlers[:] = [Warnings(logging.WARNING)]
    from stepwell.cli.settings import default_maps
    from stepwell.service.config import load_config

    try:
        config = load_config()
    except ConfigError as error:
        ctx.obj = Target(error, db)
    else:
        ctx.obj = Target(config, db)
        ctx.default_map = default_maps(config)


def _open_standard_files() -> None:
    """A file or socket must not get the number of a closed stderr: whatever writes there would write into it."""
    number = os.open(os.devnull, os.O_RDWR)
    while number <= 2:
        number = os.dup(number)
    os.close(number)
