"""Actions on many steps or workflows: a preview, a question, and its execution as a recorded operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from stepwell.cli.errors import Misuse
from stepwell.cli.output import Cell, Column, Output
from stepwell.cli.text import clean, counted, to_json

if TYPE_CHECKING:
    from stepwell import Stepwell
    from stepwell.model.secrets import Redaction
    from stepwell.operate.operations import Operation, Preview

# Items that are written; --json has more.
LINES: Final = 10
ITEMS: Final = 1_000


def act_in_bulk(
    app: Stepwell,
    kind: str,
    filters: Mapping[str, Any],
    *,
    who: str,
    why: str | None,
    only_preview: bool,
    yes: bool,
    as_json: bool,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Preview what matches; unless only that is asked for, execute it after a confirmation."""
    preview = app.operations.preview(kind, **(parameters or {}), **filters)
    if only_preview:
        write_preview(preview, app.redaction, as_json=as_json)
        return
    if not yes:
        if as_json:
            raise Misuse("an action on many needs --yes with --json, or --preview to look first; nothing changed")
        write_preview(preview, app.redaction, as_json=False)
        if not preview.counts().done or not click.confirm("Do it?"):
            Output().line("nothing changed")
            return
    write_outcome(preview.execute(who=who, why=why), app.redaction, as_json=as_json)


def write_outcome(operation: Operation, redaction: Redaction, *, as_json: bool) -> None:
    """What was executed just now; exit code 1 if every item was refused."""
    write_operation(operation, redaction, as_json=as_json)
    progress = operation.progress()
    if progress.targets and not progress.done:
        click.get_current_context().exit(1)


def write_preview(preview: Preview, redaction: Redaction, *, as_json: bool) -> None:
    from stepwell.look.shown import shown_items, shown_operation

    counts, row = preview.counts(), shown_operation(preview.row(), redaction)
    if as_json:
        items = shown_items(preview.items(limit=ITEMS), redaction)
        click.echo(to_json({"preview": row, "counts": counts, "items": items}))
        return
    output = Output()
    also = "".join(f"; {number:,} more would be {effect}" for effect, number in counts.also.items())
    output.line(
        (f"preview {preview.id} ", "bold"), f"{row.kind}: {counts.targets:,} match, {counts.done:,} would change{also}"
    )
    if counts.refused:
        output.line(f"{counts.refused:,} would be refused:")
        for item in shown_items(preview.items(expected="refused", limit=LINES), redaction):
            output.line(f"  {_subject(item)}: {clean(item.message or '')}")
    output.line((f"`stepwell operations start {preview.id}` executes exactly this", "dim"))


def write_operation(operation: Operation, redaction: Redaction, *, as_json: bool) -> None:
    from stepwell.look.about_operation import about_operation
    from stepwell.look.shown import shown_items, shown_operation

    row, progress = shown_operation(operation.row(), redaction), operation.progress()
    if as_json:
        items = shown_items(operation.items(limit=ITEMS), redaction)
        click.echo(to_json({"operation": row, "progress": progress, "items": items}))
        return
    output = Output()
    also = "".join(f"; {number:,} more {effect}" for effect, number in progress.also.items())
    done = f": {progress.done:,} of {counted(progress.targets, 'item')} done{also}" if progress.targets else ""
    output.line((f"operation {row.id} ", "bold"), f"{row.kind} is {row.state}{done}")
    filters = ", ".join(
        f"{name}={'|'.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in (row.filters or {}).items()
    )
    output.fields(
        [
            ("about", clean(about_operation(row, None))),
            ("by", clean(row.actor or "")),
            ("why", clean(row.reason or "")),
            ("filters", clean(filters)),
            ("undo of", str(row.undo_of or "")),
            ("left", str(progress.left or "")),
        ]
    )
    if not progress.targets:
        return
    columns = [Column("ITEM"), Column("BEFORE"), Column("OUTCOME"), Column("WHY", folds=True)]
    rows: list[list[Cell]] = [
        [_subject(item), item.state or "", item.outcome or "open", clean(item.message or "")]
        for item in shown_items(operation.items(limit=LINES), redaction)
    ]
    output.table(columns, rows)
    if progress.targets > LINES:
        output.line((f"... {progress.targets - LINES:,} more; --json lists them", "dim"))


def _subject(item: Any) -> str:
    return f"step {item.step_id}" if item.step_id is not None else f"workflow {item.workflow_id}"
