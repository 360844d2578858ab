"""A step or a workflow as it was at an earlier moment: `show --at`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from stepwell.cli.output import Cell, Column, Output, of_state
from stepwell.cli.text import clean, exact

if TYPE_CHECKING:
    from stepwell.look.past import WorkflowThen
    from stepwell.store.engine.past import StepThen


def write_step_then(output: Output, step_id: int, then: StepThen | None, at: datetime) -> None:
    if then is None:
        output.line(f"step {step_id} did not exist at {exact(at)}")
        return
    output.line((f"step {then.id} ", "bold"), (clean(then.label or then.action), "bold"), "  ", of_state(then.state))
    output.fields(
        [
            ("at", exact(at)),
            ("since", exact(then.since, at)),
            ("reason", clean(then.reason or "")),
            ("by", clean(then.actor or "")),
            ("attempt", str(then.attempt)),
            ("error", clean(then.error or "")),
        ]
    )


def write_workflow_then(output: Output, then: WorkflowThen) -> None:
    output.line((f"workflow {then.id}", "bold"), f"  {then.state or 'not started yet'}")
    output.fields(
        [
            ("at", exact(then.at)),
            ("since", exact(then.since, then.at)),
            ("reason", clean(then.reason or "")),
            ("by", clean(then.actor or "")),
        ]
    )
    if then.steps:
        output.line()
        _write_steps(output, then.steps, then.at)


def _write_steps(output: Output, steps: Sequence[StepThen], at: datetime) -> None:
    columns = [
        Column("STEP", right=True),
        Column("NAME"),
        Column("STATE"),
        Column("TRY", right=True),
        Column("SINCE"),
        Column("WHY", folds=True),
    ]
    rows: list[list[Cell]] = [
        [
            str(each.id),
            clean(each.template or each.label or each.action) + ("" if each.element is None else f"[{each.element}]"),
            of_state(each.state),
            str(each.attempt),
            exact(each.since, at),
            clean(each.error or each.reason or ""),
        ]
        for each in steps
    ]
    output.table(columns, rows)
