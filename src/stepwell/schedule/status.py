"""The status of executions follows their steps and workflows, in the transactions that change these."""

from __future__ import annotations

from typing import Final

from stepwell.model.features import SCHEDULE
from stepwell.schedule.decisions import START_DEADLINE
from stepwell.store import Database, Touched, Transaction
from stepwell.store.engine import executions
from stepwell.store.engine.executions import Followed

SUCCESS: Final = "SUCCESS"
OPERATOR: Final = "operator"


def follow(database: Database) -> None:
    """Let executions follow whatever changes their steps and workflows: a run, a tick, an operator, the reaper."""
    database.hooks.before_commit(SCHEDULE, _follow_touched)


def _follow_touched(tx: Transaction, touched: Touched) -> None:
    steps = [which for which in touched if isinstance(which, int)]
    workflows = [which for which in touched if isinstance(which, str)]
    followed = executions.follow_steps(tx, ids=sorted(steps)) if steps else []
    if workflows:
        followed += executions.follow_workflows(tx, ids=sorted(workflows))
    for execution in followed:
        _keep_ledger(tx, execution)


def _keep_ledger(tx: Transaction, execution: Followed) -> None:
    """The ledger says whether the slot ran; the cron keeps the newest slot that succeeded."""
    if execution.status != SUCCESS:
        return
    if execution.started_at is None and execution.error_message is not None:  # skipped before it began
        reason = START_DEADLINE if execution.error_message == START_DEADLINE else OPERATOR
        executions.slot_was_skipped(tx, execution_id=execution.id, reason=reason, detail=execution.error_message)
    elif execution.slot is not None:
        executions.record_success(tx, job_id=execution.job_id, slot=execution.slot)
