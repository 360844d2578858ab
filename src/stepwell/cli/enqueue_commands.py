"""Creating a step: `enqueue`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.jobs_commands import warn_if_unknown
from stepwell.cli.output import Output, of_state
from stepwell.cli.parameters import relatable, who_and_why_options
from stepwell.cli.subjects import step_id
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import exact, to_json

if TYPE_CHECKING:
    from stepwell import Stepwell


def json_object(text: str) -> dict[str, Any]:
    """A JSON object on the command line, or on stdin with `-`."""
    try:
        found = json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise click.BadParameter("""expected a JSON object with arguments by name, like {"symbol": "BTC"}""")
    return found


def timestamp(text: str) -> datetime:
    """A time in ISO 8601; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: expected a time in ISO 8601, like 2026-01-31T18:30:00Z") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _open(target: Target, app_name: str | None) -> Stepwell:
    if app_name is None:
        return target.open(create=True, declare_queues=True)
    from stepwell.cli.apps import load_named_app

    return load_named_app(target, app_name)


@click.command()
@click.argument("action")
@click.option("--arguments", type=json_object, metavar="JSON", help="Arguments by name; `-` reads stdin.")
@click.option("--label", help="A name for people to read.")
@click.option("--queue", help="The queue to run it in.")
@click.option("--group", help="The group.  [default: round-robin]")
@click.option("--priority", type=click.Choice(["default", "high"]), help="`high` runs first.  [default: as declared]")
@click.option("--delay", type=click.FloatRange(0), metavar="S", help="Seconds to wait before it may run.")
@click.option(
    "--at", "dispatch_after", type=timestamp, metavar="TIME", help="Do not run it before this time (ISO 8601)."
)
@click.option("--parent", metavar="STEP", help="Make it a child of this step.")
@click.option("--depends-on", metavar="STEP", multiple=True, help="Run it only after this step (repeatable).")
@click.option("--index", type=int, metavar="N", help="Its position in its block.")
@click.option("--block", metavar="UUID", help="The block that it belongs to.")
@click.option("--workflow", metavar="UUID", help="The workflow that it belongs to.")
@click.option("--type", type=click.Choice(["default", "resolve-exception"]),
              help="`resolve-exception`: runs only if a step of its block fails.")  # fmt: skip
@click.option("--retries", "--max-retries", "max_retries", type=int, metavar="N", help="Runs after the first.")
@click.option("--timeout", type=float, metavar="S", help="Soft timeout in seconds (0: none).")
@click.option("--cooldown", type=float, metavar="S", help="Seconds between timeout and kill.")
@click.option("--relatable", type=relatable, metavar="TYPE:ID", help="The object that it is about.")
@click.option("--key", help="Idempotency key: no second step is created with it.")
@click.option("--concurrency-key", metavar="KEY", help="No more steps with this key run at once than its limit.")
@click.option("--concurrency-limit", type=int, metavar="N", help="The limit of the concurrency key.")
@click.option("--app", "app_name", metavar="MODULE:NAME", help="Take settings from this app, and check the arguments.")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def enqueue(
    target: Target,
    /,
    action: str,
    arguments: dict[str, Any] | None,
    parent: str | None,
    depends_on: tuple[str, ...],
    app_name: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Create a step that runs ACTION, the name of a job.

    The step is committed when this command ends. It stays Pending until a worker serves its queue and action.
    Settings that are left out are those of the job: as the app declares them (--app), or as its workers have recorded.
    """
    with _open(target, app_name) as app:
        given = settings | {
            "parent": None if parent is None else step_id(app, parent),
            "depends_on": [step_id(app, step) for step in depends_on] or None,
        }
        reference = app.enqueue(
            action,
            arguments,
            **{name: value for name, value in given.items() if value is not None},
        )
        step = app.step(reference)
        warn_if_unknown(app, action)
    if as_json:
        click.echo(to_json(step))
        return
    output = Output()
    output.line(
        f"step {step.id} ({step.name}) is ", of_state(step.state), f" in group {step.group}, queue {step.queue}"
    )
    output.fields([("uuid", step.uuid), ("not before", exact(step.dispatch_after))])
