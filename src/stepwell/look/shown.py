"""What the command line, the API and the screens show of steps, logs and operations: no secrets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from stepwell.model.secrets import Redaction
from stepwell.model.step import Step, Transition

if TYPE_CHECKING:
    from stepwell.look.lists import StepRow
    from stepwell.store.engine.operations import Item, OperationRow
    from stepwell.store.engine.reading import LogLine


def shown_step(step: Step, redaction: Redaction) -> Step:
    return replace(
        step,
        arguments=redaction.value(step.arguments),
        response=redaction.value(step.response),
        checkpoint=redaction.value(step.checkpoint),
        decision=redaction.value(step.decision),
        reason=redaction.text(step.reason),
        error_message=redaction.text(step.error_message),
        error_stack_trace=redaction.text(step.error_stack_trace),
    )


def shown_history(rows: list[Transition], redaction: Redaction) -> list[Transition]:
    return [replace(row, reason=redaction.text(row.reason), error=redaction.text(row.error)) for row in rows]


def shown_logs(rows: list[LogLine], redaction: Redaction) -> list[LogLine]:
    return [structs.replace(row, message=redaction.text(row.message)) for row in rows]


def shown_row(row: StepRow, redaction: Redaction) -> StepRow:
    return structs.replace(row, error=redaction.text(row.error), reason=redaction.text(row.reason))


def shown_operation(row: OperationRow, redaction: Redaction) -> OperationRow:
    return structs.replace(
        row,
        filters=redaction.value(row.filters),
        parameters=redaction.value(row.parameters),
        reason=redaction.text(row.reason),
    )


def shown_items(rows: list[Item], redaction: Redaction) -> list[Item]:
    return [structs.replace(row, message=redaction.text(row.message)) for row in rows]
