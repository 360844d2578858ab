"""Deleting a schedule: not while an execution is live, unless forced."""

from __future__ import annotations

from stepwell.model.actors import By, reason_of
from stepwell.model.errors import ActionRefused
from stepwell.schedule.editing import Author
from stepwell.schedule.engine import ScheduleEngine
from stepwell.store import Transaction
from stepwell.store.engine import executions, operator
from stepwell.store.engine.executions import ExecutionRow
from stepwell.store.engine.schedules import CronRow
from stepwell.workflow.by_hand.actions import cancel

_REASON = "its schedule was deleted"


def delete(tx: Transaction, engine: ScheduleEngine, row: CronRow, by: Author, *, force: bool) -> None:
    """Delete a locked schedule; its executions and its ledger go with it."""
    if row.declared is not None and not force:
        raise ActionRefused(
            f"schedule {row.name!r} is declared by the code of {row.app}, which would create it again: disable it, or "
            "remove it from the code first; nothing changed"
        )
    live = executions.live_executions_of(tx, job_id=row.id)
    if live and not force:
        raise ActionRefused(
            f"schedule {row.name!r} has {len(live)} live execution{'s' if len(live) > 1 else ''} (the first is "
            f"{live[0].id}): wait for it, or use --force (force=True), which cancels all of them; nothing changed"
        )
    for execution in live:
        _cancel(tx, execution, by)
    engine.editor.delete(tx, row, by)


def _cancel(tx: Transaction, execution: ExecutionRow, by: Author) -> None:
    if execution.step_id is not None:
        operator.cancel_by_hand(tx, id=execution.step_id, actor=by.actor, reason=reason_of(_REASON), now=by.now)
    elif execution.workflow_id is not None:
        cancel(tx, execution.workflow_id, By(by.actor, _REASON, by.now))
