"""Commands that change and run schedules: add, edit, enable, disable, delete, sync, run, backfill."""

from __future__ import annotations

from datetime import datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import click

from stepwell.cli.enqueue_commands import json_object
from stepwell.cli.output import Column, Output
from stepwell.cli.parameters import who_and_why_options
from stepwell.cli.schedule_parameters import app_option, moment, open_app, slot_text
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import clean, counted, to_json

if TYPE_CHECKING:
    from stepwell.schedule.backfilling import Backfill

_SHOWN: Final = 10  # slots of a backfill

_SETTINGS = (
    click.option("--tz", help="The time zone, like Europe/Berlin."),
    click.option("--params", type=json_object, metavar="JSON", help="The arguments of the job, or the context."),
    click.option("--description", help="What it is for."),
    click.option("--max-retry", type=int, help="Total number of attempts."),
    click.option("--timeout", "timeout_seconds", type=int, metavar="S", help="Seconds after which a run is ended."),
    click.option("--misfire", type=click.Choice(["skip", "once", "all"]), help="What to do about missed slots."),
    click.option("--misfire-limit", type=int, help="How many missed slots `all` fires at most."),
    click.option("--start-deadline", type=float, metavar="S", help="How late a slot may begin."),
    click.option("--overlap/--no-overlap", "allow_overlap", default=None, help="Whether executions may overlap."),
    click.option("--jitter", type=float, metavar="S", help="Delay each step by up to this."),
    click.option("--expect-within", type=float, metavar="S", help="Alarm if a slot has not succeeded by then."),
)


def _settings(function: Any) -> Any:
    for option in reversed(_SETTINGS):
        function = option(function)
    return function


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


@click.command()
@click.argument("name")
@click.argument("expression")
@click.argument("handler", metavar="JOB")
@click.option("--workflow", is_flag=True, help="JOB is a workflow: `namespace.name`.")
@_settings
@who_and_why_options
@app_option
@database_option
@json_option
@click.pass_obj
def add(
    target: Target, /, name: str, expression: str, handler: str, workflow: bool, who: str, why: str | None,
    app_name: str | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Add a schedule that starts JOB at the times of a cron EXPRESSION."""
    with open_app(target, app_name) as app:
        settings = {"target": "workflow" if workflow else "job", **_given(options)}
        made = app.schedules.create(name, expression, handler, who=who, why=why, **settings)
        now = app.database.now()
    if as_json:
        click.echo(to_json(made))
        return
    output = Output()
    output.line(clean(f"Added {name}: {made.text()}."))
    if made.next_slot is not None:
        output.line(f"Its first slot is {slot_text(made.next_slot, made.definition.zone, now)}.")


@click.command()
@click.argument("name")
@click.option("--expression", help="The cron expression.")
@click.option("--handler", metavar="JOB", help="The job or workflow.")
@click.option("--reset", "reset_fields", multiple=True, metavar="FIELD", help="Remove this override, or `all`.")
@click.option("--preview", is_flag=True, help="Only show the next slots before and after; change nothing.")
@_settings
@who_and_why_options
@app_option
@database_option
@json_option
@click.pass_obj
def edit(
    target: Target, /, name: str, reset_fields: tuple[str, ...], preview: bool, who: str, why: str | None,
    app_name: str | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Change a schedule and show its next slots before and after. Past slots never fire.

    What is changed of a schedule that code declares is an override, which survives deployments until --reset.
    """
    with open_app(target, app_name) as app:
        given = _given(options)
        if reset_fields:
            given = {**app.schedules.declared_values(name, reset_fields), **given}
        done = app.schedules.edit(name, who=who, why=why, preview=preview, **given)
        now = app.database.now()
    if as_json:
        click.echo(to_json(done))
        return
    output = Output()
    if not done.changed:
        why = f"{name} already has these settings" if given else "no setting was given; --help lists them"
        output.line(clean(f"Nothing to change: {why}."))
        return
    verb = "Would change" if preview else "Changed"
    output.line(clean(f"{verb} {', '.join(done.changed)} of {name}."))
    if done.before == done.after:
        upcoming = f"; the next is {slot_text(done.after[0], done.zone_after, now)}" if done.after else ""
        output.line(f"Its slots stay the same{upcoming}.")
        return
    zones = (done.zone_before, done.zone_after)
    output.table(
        [Column("NEXT SLOTS BEFORE"), Column("NEXT SLOTS AFTER")],
        [
            ["" if slot is None else slot_text(slot, zone, now) for slot, zone in zip(pair, zones, strict=True)]
            for pair in zip_longest(done.before, done.after)
        ],
    )
    if not done.schedule.definition.enabled:
        output.line((clean(f"{name} is disabled; `stepwell schedules enable` enables it."), "yellow"))


def _switch(name: str, text: str, done: str) -> click.Command:
    @click.command(name, help=text)
    @click.argument("schedule", metavar="NAME")
    @who_and_why_options
    @database_option
    @json_option
    @click.pass_obj
    def act(target: Target, schedule: str, who: str, why: str | None, as_json: bool) -> None:
        with target.open() as app:
            found = getattr(app.schedules, name)(schedule, who=who, why=why)
            now = app.database.now()
        if as_json:
            click.echo(to_json(found))
            return
        rest = (
            ""
            if found.next_slot is None
            else f" Its next slot is {slot_text(found.next_slot, found.definition.zone, now)}."
        )
        Output().line(clean(f"{schedule} is {done}.{rest}"))

    return act


@click.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Cancel live executions; also delete a schedule that code declares.")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def delete(target: Target, name: str, force: bool, who: str, why: str | None, as_json: bool) -> None:
    """Delete a schedule with its executions and its ledger. Its changes stay in the history."""
    with target.open() as app:
        app.schedules.delete(name, who=who, why=why, force=force)
    if as_json:
        click.echo(to_json({"deleted": name}))
        return
    Output().line(clean(f"Deleted {name}, with its executions and its ledger."))


@click.command()
@click.option("--force", is_flag=True, help="Also if newer code has been seen: after a rollback.")
@app_option
@database_option
@json_option
@click.pass_obj
def sync(target: Target, force: bool, app_name: str | None, as_json: bool) -> None:
    """Write the schedules that the code of an app declares. Workers and schedulers do it when they start."""
    from stepwell.cli.apps import load_named_app

    with load_named_app(target, app_name or target.config.app.name) as app:
        done = app.schedules.reconcile(force=force)
        name = app.name
    if as_json:
        click.echo(to_json(done))
        return
    output = Output()
    if done.newer_code_since is not None:
        since = slot_text(done.newer_code_since, "UTC")
        output.line(
            (f"Nothing changed: newer code of {clean(name)} was seen at {since}. --force overrides it.", "yellow")
        )
        return
    for what, names in (
        ("created", done.created), ("changed", done.changed), ("disabled, no longer in the code", done.disabled),
        ("not written, the name is taken", done.taken),
    ):  # fmt: skip
        if names:
            output.line(clean(f"{what}: {', '.join(names)}"))
    if not (done.created or done.changed or done.disabled or done.taken):
        output.line("Nothing to change.")


@click.command()
@click.argument("name")
@who_and_why_options
@app_option
@database_option
@json_option
@click.pass_obj
def run(target: Target, name: str, who: str, why: str | None, app_name: str | None, as_json: bool) -> None:
    """Run a schedule now, independent of its slots. It may be disabled."""
    with open_app(target, app_name) as app:
        made = app.schedules.run_now(name, who=who, why=why)
    if as_json:
        click.echo(to_json(made))
        return
    what = f"workflow {made.workflow_id}" if made.step_id is None else f"step {made.step_id}"
    shown = made.workflow_id if made.step_id is None else made.step_id
    Output().line(clean(f"Execution {made.id} of {name} is created as {what}; `stepwell show {shown}` follows it."))


@click.command()
@click.argument("name")
@click.argument("first", metavar="FROM", type=moment)
@click.argument("last", metavar="TO", type=moment)
@click.option("--preview", is_flag=True, help="Only show which slots would run.")
@who_and_why_options
@app_option
@database_option
@json_option
@click.pass_obj
def backfill(
    target: Target, /, name: str, first: datetime, last: datetime, preview: bool, who: str, why: str | None,
    app_name: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Run the slots of a period (both ends included) that have neither succeeded nor are about to run.

    It uses the current definition. FROM and TO without a zone are in the zone of the schedule.
    """
    with open_app(target, app_name) as app:
        zone = app.schedules.get(name).definition.zone
        done = app.schedules.backfill(name, first, last, who=who, why=why, preview=preview)
    if as_json:
        passed = [{"slot": slot, "status": status} for slot, status in done.passed_over.items()]
        click.echo(to_json({"slots": done.slots, "passed_over": passed, "executions": done.executions}))
        return
    _write_backfill(Output(), done, zone, preview=preview)


def _write_backfill(output: Output, done: Backfill, zone: str, *, preview: bool) -> None:
    verb = "would run" if preview else "will run"
    output.line(f"{counted(len(done.slots), 'slot')} {verb}{':' if done.slots else '.'}")
    for slot in done.slots[:_SHOWN]:
        output.line(f"  {slot_text(slot, zone)}")
    if len(done.slots) > _SHOWN:
        output.line(f"  … and {len(done.slots) - _SHOWN:,} more, up to {slot_text(done.slots[-1], zone)}")
    for status in sorted(set(done.passed_over.values())):
        number = sum(each == status for each in done.passed_over.values())
        output.line(f"{counted(number, 'slot')} passed over: {status}")


CHANGES: Final = (
    add,
    edit,
    _switch("enable", "Enable a schedule; what it missed meanwhile does not fire.", "enabled"),
    _switch("disable", "Disable a schedule; executions that exist are not affected.", "disabled"),
    delete,
    sync,
    run,
    backfill,
)
