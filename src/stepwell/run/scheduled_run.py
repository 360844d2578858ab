"""The schedule that started a running step, as its own code can read it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from stepwell.store import Database, Transaction
from stepwell.store.engine import executions


class ScheduledRun(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule of a running step and the slot that it runs for: `current_step().schedule`.

    `slot` is None for a manual run. `previous_success` is the newest slot before it that succeeded.
    """

    name: str
    execution_id: int
    kind: Literal["slot", "manual", "backfill"]
    slot: datetime | None
    previous_success: datetime | None


def read_scheduled_run(database: Database, step_id: int, workflow_id: str) -> ScheduledRun | None:
    """The schedule of a step or of its workflow; None if it was not started by one."""

    def read(tx: Transaction) -> ScheduledRun | None:
        found = executions.execution_of_step(tx, step_id=step_id, workflow_id=workflow_id)
        if found is None:
            return None
        previous = found.last_success
        if found.slot is not None and previous is not None and previous >= found.slot:
            previous = executions.success_before(tx, job_id=found.job_id, slot=found.slot)
        return ScheduledRun(
            name=found.name,
            execution_id=found.id,
            kind=found.kind,
            slot=found.slot,
            previous_success=previous,
        )

    return database.read(read)
