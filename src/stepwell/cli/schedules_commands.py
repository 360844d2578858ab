"""Schedules: `schedules` and its commands, and `scheduler`, which decides their slots."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.apps import load_named_app
from stepwell.cli.enqueue_commands import json_object
from stepwell.cli.logs import log_options, start_log
from stepwell.cli.output import Cell, Column, Output
from stepwell.cli.parameters import who_and_why_options
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import age, clean, counted, exact, to_json

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.schedule.schedule import Schedule

app_option = click.option("--app", "app_name", metavar="MODULE:NAME", help="The app with the jobs and workflows.")


def _open(target: Target, app_name: str | None) -> Stepwell:
    """The app if one is named, else the database alone: workers have recorded the jobs."""
    return load_named_app(target, app_name) if app_name else target.open()


def _moment(text: str) -> datetime:
    """A time of the command line; without a zone, in UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected a time like 2026-03-29T02:30 or 2026-03-29T02:30+02:00") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


@click.group()
def schedules() -> None:
    """Schedules: list, add, change and run them."""


@schedules.command("list")
@database_option
@json_option
@click.pass_obj
def list_schedules(target: Target, as_json: bool) -> None:
    """List schedules with their next slot."""
    with target.open() as app:
        found, now = app.schedules.list(), app.database.now()
    if as_json:
        click.echo(to_json(found))
        return
    output = Output()
    if not found:
        output.line(("No schedules. `stepwell schedules add NAME EXPRESSION JOB` adds one.", "yellow"))
        return
    columns = [
        Column("NAME"), Column("EXPRESSION"), Column("ZONE"), Column("STARTS"), Column("NEXT", right=True),
        Column("LAST SUCCESS", right=True), Column("STATE", folds=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            clean(each.name),
            clean(each.definition.expression),
            clean(each.definition.zone),
            clean(each.definition.handler),
            "-" if each.next_slot is None else exact(each.next_slot, now),
            "-" if each.last_success is None else age(each.last_success, now),
            _state(each),
        ]
        for each in found
    ]
    output.table(columns, rows)


def _state(schedule: Schedule) -> Cell:
    if schedule.definition.enabled:
        return ("enabled", "green")
    why = f": {schedule.disabled_reason}" if schedule.disabled_reason else ""
    return (clean(f"disabled by {schedule.disabled_by}{why}"), "yellow")


@schedules.command()
@click.argument("name")
@database_option
@json_option
@click.pass_obj
def show(target: Target, name: str, as_json: bool) -> None:
    """Show one schedule: its definition, its newest slots and its changes."""
    with target.open() as app:
        found, slots, changes = app.schedules.get(name), app.schedules.slots(name), app.schedules.changes(name)
        upcoming, now = app.schedules.next(name), app.database.now()
    if as_json:
        click.echo(to_json({"schedule": found, "next": upcoming, "slots": slots, "changes": changes}))
        return
    output = Output()
    definition = found.definition
    output.fields([
        ("schedule", clean(found.name)),
        ("expression", clean(f"{definition.expression} ({definition.zone})")),
        ("starts", clean(f"{definition.target} {definition.handler} {to_json(definition.params)}")),
        ("state", _state(found)),
        ("next", ", ".join(exact(slot, now) for slot in upcoming[:3])),
    ])  # fmt: skip
    output.line()
    for row in slots:
        until = "" if row.until_slot == row.slot else f" to {exact(row.until_slot, now)}"
        why = f"  {clean(row.reason)}: {clean(row.detail or '')}" if row.reason else f"  execution {row.execution_id}"
        output.line(f"{exact(row.slot, now)}{until}  {row.outcome}{why}")
    output.line()
    for change in changes:
        why = f": {clean(change.reason)}" if change.reason else ""
        output.line(f"{exact(change.changed_at, now)}  {change.kind} by {clean(change.actor)}{why}")


_SETTINGS = (
    click.option("--tz", help="The time zone, like Europe/Berlin."),
    click.option("--params", type=json_object, metavar="JSON", help="The arguments of the job, or the context."),
    click.option("--description", help="What it is for."),
    click.option("--max-retry", type=int, help="Attempts in all."),
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


@schedules.command()
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
    with _open(target, app_name) as app:
        settings = {"target": "workflow" if workflow else "job", **_given(options)}
        made = app.schedules.create(name, expression, handler, who=who, why=why, **settings)
        now = app.database.now()
    if as_json:
        click.echo(to_json(made))
        return
    upcoming = "never" if made.next_slot is None else exact(made.next_slot, now)
    Output().line(f"schedule {clean(name)} is added; its first slot is {upcoming}")


@schedules.command()
@click.argument("name")
@click.option("--expression", help="The cron expression.")
@click.option("--handler", metavar="JOB", help="The job or workflow.")
@click.option("--preview", is_flag=True, help="Only show the next slots before and after.")
@_settings
@who_and_why_options
@app_option
@database_option
@json_option
@click.pass_obj
def edit(
    target: Target, /, name: str, preview: bool, who: str, why: str | None, app_name: str | None, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Change a schedule and show its next slots before and after. The past never fires."""
    with _open(target, app_name) as app:
        done = app.schedules.edit(name, who=who, why=why, preview=preview, **_given(options))
        now = app.database.now()
    if as_json:
        click.echo(to_json(done))
        return
    output = Output()
    output.line(f"{'would change' if preview else 'changed'}: {', '.join(done.changed) or 'nothing'}")
    output.table(
        [Column("BEFORE"), Column("AFTER")],
        [[exact(before, now), exact(after, now)] for before, after in zip(done.before, done.after, strict=False)],
    )


def _acting(name: str, text: str, done: str) -> None:
    @schedules.command(name, help=text)
    @click.argument("schedule")
    @who_and_why_options
    @database_option
    @json_option
    @click.pass_obj
    def act(target: Target, schedule: str, who: str, why: str | None, as_json: bool) -> None:
        with target.open() as app:
            found = getattr(app.schedules, name)(schedule, who=who, why=why)
        if as_json:
            click.echo(to_json(found))
            return
        Output().line(f"schedule {clean(schedule)} is {done}")


_acting("enable", "Enable a schedule; what it missed meanwhile does not fire.", "enabled")
_acting("disable", "Disable a schedule; executions that exist are not affected.", "disabled")
_acting("reset", "Give what an operator overrode back to the code that declares it.", "as the code declares it")


@schedules.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Cancel live executions.")
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def delete(target: Target, name: str, force: bool, who: str, why: str | None, as_json: bool) -> None:
    """Delete a schedule with its executions and its ledger."""
    with target.open() as app:
        app.schedules.delete(name, who=who, why=why, force=force)
    if as_json:
        click.echo(to_json({"deleted": name}))
        return
    Output().line(f"schedule {clean(name)} is deleted")


@schedules.command()
@click.argument("name")
@who_and_why_options
@app_option
@database_option
@json_option
@click.pass_obj
def run(target: Target, name: str, who: str, why: str | None, app_name: str | None, as_json: bool) -> None:
    """Run a schedule now, beside its slots."""
    with _open(target, app_name) as app:
        made = app.schedules.run_now(name, who=who, why=why)
    if as_json:
        click.echo(to_json(made))
        return
    Output().line(f"execution {made.id} is {made.status}")


@schedules.command()
@click.argument("name")
@click.argument("first", metavar="FROM", type=_moment)
@click.argument("last", metavar="TO", type=_moment)
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
    """Run the slots of a period that have neither succeeded nor are about to run."""
    with _open(target, app_name) as app:
        done = app.schedules.backfill(name, first, last, who=who, why=why, preview=preview)
    if as_json:
        click.echo(to_json({"slots": done.slots, "passed_over": len(done.passed_over), "executions": done.executions}))
        return
    Output().line(
        f"{counted(len(done.slots), 'slot')} {'would run' if preview else 'will run'}, "
        f"{len(done.passed_over)} passed over"
    )


@schedules.command("next")
@click.argument("name")
@click.option("-n", "count", default=10, show_default=True, type=click.IntRange(1, 1_000))
@database_option
@json_option
@click.pass_obj
def next_slots(target: Target, name: str, count: int, as_json: bool) -> None:
    """Show the next slots."""
    with target.open() as app:
        found, now = app.schedules.next(name, count), app.database.now()
    if as_json:
        click.echo(to_json(found))
        return
    for slot in found:
        Output().line(exact(slot, now))


@click.command()
@click.option("--once", is_flag=True, help="Decide what is due and exit.")
@app_option
@log_options
@database_option
@click.pass_obj
def scheduler(target: Target, /, once: bool, app_name: str | None, **log: Any) -> None:
    """Decide the slots of schedules until stopped. Any number may run at once; each slot fires once.

    A schedule of a workflow needs --app. `stepwell up` runs a scheduler, too.
    """
    from stepwell.cli.crews import crew_of

    start_log(target.config, **log)
    with _open(target, app_name or target.config.app.name) as app:
        if once:
            click.echo(f"{counted(app.schedules.run_once(), 'execution')} created.")
            return
        with crew_of([app.scheduler_part()], stopping="Stopping after the current round.") as crew:
            click.echo(f"Scheduling on {target}. Ctrl-C or SIGTERM stops it.")
            crew.run()
    click.echo(f"Stopped: {crew.report()}." if crew.report() else "Stopped.")
