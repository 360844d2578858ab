"""Schedules: `schedules` with its commands that look, and `scheduler`, which decides slots. `schedule_changes` acts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.logs import log_options, start_log
from stepwell.cli.output import Cell, Column, Output
from stepwell.cli.schedule_changes import CHANGES
from stepwell.cli.schedule_parameters import app_option, moment, open_app, slot_text
from stepwell.cli.short_lines import short_lines
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import age, clean, counted, to_json

if TYPE_CHECKING:
    from stepwell.schedule.schedule import Schedule
    from stepwell.store.engine.schedules import ChangeRow
    from stepwell.store.engine.slots import SlotRow


@click.group()
def schedules() -> None:
    """Schedules: what runs when. Times without a zone are in the zone of the schedule."""


for _command in CHANGES:
    schedules.add_command(_command)


@schedules.command("list")
@database_option
@json_option
@click.pass_obj
def list_schedules(target: Target, as_json: bool) -> None:
    """List schedules with their next slot; those without a success in time (`expect_within`) are marked."""
    with target.open() as app:
        found, now = app.schedules.list(), app.database.now()
        overdue = {each.schedule for each in app.schedules.overdue()}
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
            "-" if each.next_slot is None else age(each.next_slot, now),
            "-" if each.last_success is None else age(each.last_success, now),
            ("overdue: no success in time", "bold red") if each.name in overdue else _state(each),
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
@click.option("-n", "count", default=10, show_default=True, type=click.IntRange(1, 1_000), help="How many slots.")
@database_option
@json_option
@click.pass_obj
def show(target: Target, name: str, count: int, as_json: bool) -> None:
    """Show one schedule: its definition, its newest slots and its changes."""
    with target.open() as app:
        found, changes = app.schedules.get(name), app.schedules.changes(name)
        slots = app.schedules.slots(name, limit=count)
        upcoming, now = app.schedules.next(name), app.database.now()
        executions = app.schedules.executions(name, limit=2 * count)
    if as_json:
        parts = {"schedule": found, "next": upcoming, "slots": slots, "executions": executions, "changes": changes}
        click.echo(to_json(parts))
        return
    output = Output()
    output.fields(_fields(found, upcoming, now))
    output.heading("Newest slots")
    if not slots:
        output.line("none yet")
    zone = found.definition.zone
    statuses = {each.id: each.status for each in executions}
    for row in slots:
        output.line(_slot_line(row, zone, statuses))
    if others := [each for each in executions if each.kind != "slot"]:
        output.heading("Manual runs and backfills")
        for each in reversed(others):
            of = "" if each.slot is None else f" of {slot_text(each.slot, zone)}"
            who = clean(f"by {each.requested_by}" + (f" ({each.reason})" if each.reason else ""))
            output.line(f"{slot_text(each.created_at, zone)}  {each.kind}{of} {who}: execution {each.id} {each.status}")
    output.heading("Changes")
    for change in changes:
        output.line(_change_line(change, zone))


def _fields(found: Schedule, upcoming: list[datetime], now: datetime) -> list[tuple[str, Cell]]:
    definition = found.definition
    defaults = type(definition)(expression=definition.expression, handler=definition.handler)
    shown = ("expression", "handler", "zone", "target", "params", "description", "enabled")
    others = [
        f"{field} = {clean(getattr(definition, field))}"
        for field in definition.__struct_fields__
        if field not in shown and getattr(definition, field) != getattr(defaults, field)
    ]
    overridden = [
        f"{field} by {each.who}" + (f" ({each.why})" if each.why else "") for field, each in found.overrides.items()
    ]
    rows: list[tuple[str, Cell]] = [
        ("schedule", clean(found.name)),
        ("description", clean(definition.description or "")),
        ("expression", clean(f"{definition.expression}  ({found.text()})")),
        ("starts", clean(f"{definition.target} {definition.handler} {to_json(definition.params)}")),
        ("settings", ", ".join(others) or "the defaults"),
        ("state", _state(found)),
        ("next", clean(slot_text(upcoming[0], definition.zone, now)) if upcoming and definition.enabled else "-"),
        ("last success", slot_text(found.last_success, definition.zone, now) if found.last_success else "none"),
    ]
    if found.declared is not None:
        rows.append(("declared by", clean(f"the code of {found.app}")))
    if overridden:
        rows.append(("overridden", clean(", ".join(overridden))))
    return rows


def _slot_line(row: SlotRow, zone: str, statuses: dict[int, str]) -> str:
    until = "" if row.until_slot == row.slot else f" to {slot_text(row.until_slot, zone)}"
    if row.outcome == "fired":
        status = statuses.get(row.execution_id or 0, "")
        return f"{slot_text(row.slot, zone)}  execution {row.execution_id} {status}".rstrip()
    detail = f" ({clean(row.detail)})" if row.detail else ""
    return f"{slot_text(row.slot, zone)}{until}  skipped: {clean(row.reason or '')}{detail}"


def _change_line(change: ChangeRow, zone: str) -> str:
    from stepwell.schedule.definition import changed_fields, decoded

    what = ""
    if change.before is not None and change.after is not None:
        before, after = decoded(change.before), decoded(change.after)
        what = ", ".join(
            f"{field} from {getattr(before, field)!r} to {getattr(after, field)!r}"
            for field in changed_fields(before, after)
            if field != "enabled"
        )
    why = f" ({change.reason})" if change.reason else ""
    return clean(
        f"{slot_text(change.changed_at, zone)}  {change.kind} by {change.actor}{why}{': ' if what else ''}{what}"
    )


@schedules.command("next")
@click.argument("name")
@click.option("-n", "count", default=10, show_default=True, type=click.IntRange(1, 1_000), help="How many.")
@database_option
@json_option
@click.pass_obj
def next_slots(target: Target, name: str, count: int, as_json: bool) -> None:
    """Show the next slots."""
    with target.open() as app:
        found, now = app.schedules.next(name, count), app.database.now()
        schedule = app.schedules.get(name)
    if as_json:
        click.echo(to_json(found))
        return
    output = Output()
    if not found:
        output.line((clean(f"none: {schedule.text()}"), "yellow"))
    elif not schedule.definition.enabled:
        output.line((clean(f"{name} is disabled; if it were enabled, it would run at:"), "yellow"))
    for slot in found:
        output.line(slot_text(slot, schedule.definition.zone, now))


@schedules.command()
@click.argument("name")
@click.option(
    "--at", "at", type=moment, required=True, metavar="TIME",
    help="Like 2026-03-29T02:30 (in the zone of the schedule) or 2026-03-29T02:30+02:00.",
)  # fmt: skip
@database_option
@json_option
@click.pass_obj
def explain(target: Target, name: str, at: datetime, as_json: bool) -> None:
    """Explain why a schedule ran, or did not run, at a time."""
    with target.open() as app:
        found = app.schedules.explain(name, at)
        zone = "UTC" if found.verdict == "deleted" else app.schedules.get(name).definition.zone
    if as_json:
        click.echo(to_json(found))
        return
    output = Output()
    output.line((clean(f"{name} at {slot_text(found.at, zone)}"), "bold"))
    output.line(clean(found.text))
    for fact in found.facts:
        output.line(f"  {clean(fact)}")


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
    with open_app(target, app_name) as app:
        if once:
            click.echo(f"{counted(app.schedules.run_once(), 'execution')} created.")
            return
        with crew_of([app.parts.scheduler()], stopping="Stopping after the current round.") as crew:
            click.echo(f"Scheduling on {target}. Ctrl-C or SIGTERM stops it.")
            crew.run()
    click.echo(f"Stopped: {crew.report()}." if crew.report() else "Stopped.")


# Of commands whose first sentence is too long for a list.
short_lines(
    schedules,
    {
        "add": "Add a schedule that starts JOB.",
        "backfill": "Run the slots of a period in the past.",
        "list": "List schedules with their next slot.",
        "show": "Show one schedule.",
    },
)
