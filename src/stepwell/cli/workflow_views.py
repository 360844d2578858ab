"""A declared workflow as text: its request and steps, its tree, and why it is waiting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click
from msgspec import structs

from stepwell.cli.explanations import write_roots
from stepwell.cli.output import Cell, Column, Output, Span, of_state
from stepwell.cli.subjects import short_ids
from stepwell.cli.text import age, clean, exact, shorten, to_json
from stepwell.cli.trees import tree_lines
from stepwell.look.palette import WORKFLOW_STYLES
from stepwell.look.shown import shown_step
from stepwell.model.workflow_states import WorkflowState

if TYPE_CHECKING:
    from stepwell import Run
    from stepwell.look.explain import WorkflowExplanation
    from stepwell.store.engine.workflows import ListedWorkflow

# Steps that an explanation writes; --json has more.
LINES: Final = 20
# On a terminal with fewer columns, a list shows the beginning of each id, and leaves out version and status.
WIDTH_OF_WHOLE_IDS: Final = 140
WIDTH_OF_ALL_COLUMNS: Final = 100


def of_workflow_state(state: str) -> Span:
    return (state, WORKFLOW_STYLES[WorkflowState(state)])


def write_workflows(output: Output, found: Sequence[ListedWorkflow], now: datetime) -> None:
    """A list, one workflow on a line."""
    ids = [row.id for row in found]
    shown_ids = short_ids(ids) if output.narrower_than(WIDTH_OF_WHOLE_IDS) else ids
    columns: list[tuple[Column, list[Cell]]] = [
        (Column("ID"), [*shown_ids]),
        (Column("WORKFLOW", folds=True), [clean(f"{row.namespace}.{row.name}") for row in found]),
        (Column("VERSION", folds=True), [clean(row.version) for row in found]),
        (Column("STATE"), [of_workflow_state(row.state) for row in found]),
        (Column("STATUS", folds=True), [row.execution_status for row in found]),
        (Column("DONE", right=True), [f"{row.completed + row.skipped} of {row.total}" for row in found]),
        (Column("STARTED", right=True), [age(row.created_at, now) for row in found]),
        (Column("INITIATOR", folds=True), [clean(row.initiator or "") for row in found]),
    ]
    if output.narrower_than(WIDTH_OF_ALL_COLUMNS):
        columns = [(column, cells) for column, cells in columns if column.name not in ("VERSION", "STATUS")]
    output.table([column for column, _ in columns], zip(*(cells for _, cells in columns), strict=True))


def write_workflow(run: Run, *, as_json: bool, show_secrets: bool = False) -> None:
    """Its request, its steps, what it waits for and its history."""
    row, execution, history = run.row(), run.execution(), run.history()
    steps = [run.app.step(step.id) for step in run.steps().values()]
    if not show_secrets:
        row = structs.replace(row, context=run.app.redaction.value(row.context))
        steps = [shown_step(step, run.app.redaction) for step in steps]
    now = run.app.database.now()
    if as_json:
        click.echo(to_json({"workflow": row, "execution": execution, "steps": steps, "history": history}))
        return
    output = Output()
    fields: list[tuple[str, Cell]] = [
        ("workflow", clean(f"{row.namespace}.{row.name}, version {row.version}")),
        ("id", run.id),
        ("state", [of_workflow_state(row.state), f" ({execution.execution_status})"]),
        ("context", shorten(to_json(row.context), 300)),
        ("asked by", clean(", ".join(filter(None, (row.initiator, row.source_system, row.request_reason))) or "-")),
        ("started", exact(row.created_at, now)),
    ]
    if execution.next_change_at is not None:
        fields.append(("next change", exact(execution.next_change_at, now)))
    output.fields(fields)
    columns = [
        Column("STEP", right=True),
        Column("NAME"),
        Column("KIND"),
        Column("STATE"),
        Column("WHY", folds=True),
    ]
    rows: list[list[Cell]] = [
        [str(s.id), clean(s.template or ""), s.kind, of_state(s.state), clean(s.error_message or s.reason or "")]
        for s in steps
    ]
    output.line()
    output.table(columns, rows)
    output.heading("History")
    changes: list[list[Cell]] = [
        [
            exact(change.at)[:26],
            of_workflow_state(change.to_state),
            clean(change.actor or ""),
            clean(change.reason or ""),
        ]
        for change in history
    ]
    output.table([Column("TIME (UTC)"), Column("STATE"), Column("BY"), Column("WHY", folds=True)], changes)


def write_workflow_tree(run: Run, limit: int | None) -> None:
    """Its steps in order, each with its descendants, and what it comes after."""
    output, row = Output(), run.row()
    tops = run.app.reader.workflow_trees(run.id)
    after = run.app.reader.edges_to([top.step.id for top in tops])
    names = {top.step.id: clean(top.step.template or top.step.name) for top in tops}
    output.line((f"workflow {run.id} ", "bold"), clean(f"{row.namespace}.{row.name}  "), of_workflow_state(row.state))
    for top in tops:
        upstream = ", ".join(names.get(each, str(each)) for each in after.get(top.step.id, []))
        for place, line in enumerate(tree_lines(top, limit)):
            note: list[Span] = [(f"  after {upstream}", "dim")] if upstream and place == 0 else []
            output.line(*line, *note, cut=True)


def write_workflow_explanation(run: Run, found: WorkflowExplanation, now: datetime) -> None:
    output, row, execution = Output(), run.row(), run.execution()
    output.line(
        (f"workflow {run.id} ", "bold"), clean(f"{row.namespace}.{row.name}  "), of_workflow_state(row.state),
        f" ({execution.execution_status})",
    )  # fmt: skip
    if not found.steps:
        output.line("every step has concluded")
        return
    output.heading("Steps that have not concluded")
    for step in found.steps[:LINES]:
        output.line(f"  step {step.step_id} {clean(step.name)} (", of_state(step.state), f"): {clean(step.summary)}")
    if (more := len(found.steps) - LINES + found.steps_more) > 0:
        output.line((f"  ... {more:,} more", "dim"))
    write_roots(output, found.roots, found.roots_more)
    if execution.next_change_at is not None:
        output.line(f"Next automatic change: {exact(execution.next_change_at, now)}")
