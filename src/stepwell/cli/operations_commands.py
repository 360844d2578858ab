"""What was done by hand, and actions in bulk: `operations` and its commands."""

from __future__ import annotations

import click

from stepwell.cli.bulk import write_operation, write_outcome, write_preview
from stepwell.cli.output import Cell, Column, Output
from stepwell.cli.parameters import who_and_why_options
from stepwell.cli.short_lines import short_lines
from stepwell.cli.target import Target, database_option, json_option
from stepwell.cli.text import age, clean, to_json


@click.group()
def operations() -> None:
    """What operators did: list and show it, start a preview, undo it."""


@operations.command("list")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1_000))
@click.option("--before", type=click.IntRange(1), metavar="ID", help="Only operations older than this one (next page).")
@database_option
@json_option
@click.pass_obj
def list_operations(target: Target, limit: int, before: int | None, as_json: bool) -> None:
    """List operations, newest first."""
    from stepwell.look.about_operation import COUNTED_TARGETS, about_operation
    from stepwell.look.shown import shown_operation

    with target.open() as app:
        found = [shown_operation(row, app.redaction) for row in app.operations.newest(before=before, limit=limit)]
        targets = app.operations.targets_of([row.id for row in found], most=COUNTED_TARGETS + 1)
        now = app.database.now()
    if as_json:
        click.echo(to_json(found))
        return
    output = Output()
    if not found:
        output.line("No operations.")
        return
    columns = [
        Column("ID", right=True), Column("KIND"), Column("ABOUT", folds=True), Column("STATE"),
        Column("WHEN", right=True), Column("BY"), Column("WHY", folds=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            str(row.id),
            row.kind if row.undo_of is None else f"undo of {row.undo_of}",
            clean(about_operation(row, targets.get(row.id))),
            row.state,
            age(row.started_at or row.created_at, now),
            clean(row.actor or ""),
            clean(row.reason or ""),
        ]
        for row in found
    ]
    output.table(columns, rows)
    if len(found) == limit:
        output.line((f"Next page: --before {found[-1].id}", "dim"))


@operations.command()
@click.argument("operation", type=int)
@database_option
@json_option
@click.pass_obj
def show(target: Target, operation: int, as_json: bool) -> None:
    """Show one operation, or a preview, with the outcome of each item."""
    with target.open() as app:
        found = app.operations.get(operation)
        if found.row().state in ("previewing", "previewed"):
            write_preview(app.operations.open_preview(operation), app.redaction, as_json=as_json)
        else:
            write_operation(found, app.redaction, as_json=as_json)


@operations.command()
@click.argument("preview", type=int)
@click.option("--pace", metavar="RATE", help='At most this many items per time, like "50/minute".')
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def start(target: Target, preview: int, pace: str | None, who: str, why: str | None, as_json: bool) -> None:
    """Execute a preview: exactly what it froze. An operation that was interrupted is continued."""
    with target.open() as app:
        found = app.operations.get(preview)
        if found.row().state == "running":
            found.run()
        else:
            found = app.operations.open_preview(preview).execute(who=who, why=why, pace=pace)
        write_outcome(found, app.redaction, as_json=as_json)


@operations.command()
@click.argument("operation", type=int)
@click.option("--pace", metavar="RATE", help='At most this many items per time, like "50/minute".')
@who_and_why_options
@database_option
@json_option
@click.pass_obj
def undo(target: Target, operation: int, pace: str | None, who: str, why: str | None, as_json: bool) -> None:
    """Revert what an operation did, where nothing has happened since; itself an operation."""
    with target.open() as app:
        made = app.operations.get(operation).undo(who=who, why=why, pace=pace)
        write_outcome(made, app.redaction, as_json=as_json)


# Of commands whose first sentence is too long for a list.
short_lines(
    operations,
    {
        "undo": "Revert what an operation did.",
    },
)
