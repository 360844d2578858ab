"""The request that started the workflow of a running step, as its own code can read it."""

from __future__ import annotations

from typing import Any

import msgspec

from stepwell.store import Database
from stepwell.store.engine import workflows


class WorkflowRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who started the declared workflow of a running step, with what and why: `current_step().workflow`.

    `context` is plain data, as it was stored.
    """

    id: str
    namespace: str
    name: str
    version: str
    context: Any
    initiator: str | None
    source_system: str | None
    reason: str | None
    tags: list[str]
    bypass_steps: list[str]
    rerun_of: str | None


def read_request(database: Database, workflow_id: str) -> WorkflowRequest | None:
    """The request of a declared workflow; None if there is no such workflow."""
    row = database.read(lambda tx: workflows.workflow(tx, id=workflow_id))
    if row is None:
        return None
    return WorkflowRequest(
        id=row.id,
        namespace=row.namespace,
        name=row.name,
        version=row.version,
        context=row.context,
        initiator=row.initiator,
        source_system=row.source_system,
        reason=row.request_reason,
        tags=row.tags,
        bypass_steps=row.bypass_steps,
        rerun_of=row.rerun_of,
    )
