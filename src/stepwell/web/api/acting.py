"""The audit row of an action that has none of its own: something that was created or defined."""

from __future__ import annotations

from typing import Any

from stepwell.model.actors import By, actor_of
from stepwell.operate.audit import record_creation
from stepwell.web.api.endpoint import Call


def record(
    call: Call,
    kind: str,
    why: str | None,
    *,
    step_id: int | None = None,
    workflow_id: str | None = None,
    **parameters: Any,
) -> None:
    database = call.app.database
    by = By(actor_of(call.who), why, database.now())
    database.transact(lambda tx: record_creation(tx, kind, by, parameters, step_id=step_id, workflow_id=workflow_id))
