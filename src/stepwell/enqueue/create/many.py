"""Writing many steps at once: their rows, column by column, and their DAG edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import repeat
from operator import attrgetter, is_
from typing import Any, Final

from stepwell.define.drafts import due
from stepwell.enqueue.place import Placement
from stepwell.model.features import WORKFLOW
from stepwell.model.reasons import DORMANT
from stepwell.store import Transaction
from stepwell.store.engine import creation

Column = Callable[[Placement], Any]

_ALWAYS: Final[dict[str, Column]] = {
    "id": attrgetter("id"),
    "uuid": attrgetter("uuid"),
    "workflow_id": attrgetter("workflow"),
    "block_uuid": attrgetter("block"),
    "index": attrgetter("index"),
    "action": attrgetter("draft.action"),
    "arguments": attrgetter("arguments"),
    "queue": attrgetter("queue"),
    "group": attrgetter("group"),
    "priority": attrgetter("priority"),
    "max_retries": attrgetter("draft.max_retries"),
    "timeout": attrgetter("draft.timeout"),
    "cooldown": attrgetter("draft.cooldown"),
    "concurrency_limit": attrgetter("draft.concurrency_limit"),
}
# With the defaults of the columns: written only if a step of the call differs, because a narrow COPY is faster.
_IF_ANY_DIFFERS: Final[dict[str, tuple[Any, Column]]] = {
    "parent_step_id": (None, attrgetter("parent_id")),
    "child_block_uuid": (None, attrgetter("child_block")),
    "type": ("default", attrgetter("draft.type")),
    "label": (None, attrgetter("draft.label")),
    "relatable_type": (None, lambda placement: placement.draft.relatable and placement.draft.relatable[0]),
    "relatable_id": (None, lambda placement: placement.draft.relatable and str(placement.draft.relatable[1])),
    "trigger_rule": ("all_concluded", attrgetter("draft.trigger_rule")),
    "dependencies": (0, lambda placement: len(placement.dependencies)),
    "has_dependents": (False, attrgetter("has_dependents")),
    "has_children": (False, attrgetter("has_children")),
    "idempotency_key": (None, attrgetter("draft.key")),
    "concurrency_key": (None, attrgetter("draft.concurrency_key")),
    "belongs_to": (None, attrgetter("belongs_to")),
}


# Only where a step of the call belongs to a declared workflow.
_OF_WORKFLOWS: Final[dict[str, Column]] = {
    "kind": lambda placement: "job" if placement.draft.planned is None else placement.draft.planned.kind,
    **{
        name: lambda placement, name=name: placement.draft.planned and getattr(placement.draft.planned, name)  # type: ignore[misc]
        for name in ("template", "element", "plan", "undecided", "response")
    },
}


def _reason(placement: Placement) -> str | None:
    if placement.draft.planned is not None:
        return placement.draft.planned.reason
    return DORMANT if placement.is_dormant else None


def insert(tx: Transaction, placements: Sequence[Placement], now: datetime) -> None:
    """Number the steps in this order, and write them with their edges."""
    for placement, number in zip(placements, creation.reserve_step_ids(tx, len(placements)), strict=True):
        placement.id = number
    columns = {name: list(map(read, placements)) for name, read in _ALWAYS.items()}
    for name, (usual, read) in _IF_ANY_DIFFERS.items():
        values = list(map(read, placements))
        if values.count(usual) < len(values):
            columns[name] = values
    if WORKFLOW in columns.get("belongs_to", ()):
        columns |= {name: list(map(read, placements)) for name, read in _OF_WORKFLOWS.items()}
        moment = tx.timestamp(now)
        columns["completed_at"] = [moment if placement.state.is_terminal else None for placement in placements]
    if "type" in columns or "kind" in columns:
        columns["state"] = [placement.state.value for placement in placements]
        columns["reason"] = list(map(_reason, placements))
    moments = [due(placement.draft, now) for placement in placements]
    if moments.count(None) < len(moments):
        columns["dispatch_after"] = [None if moment is None else tx.timestamp(moment) for moment in moments]
    same = {"placed": True, "created_at": tx.timestamp(now), "updated_at": tx.timestamp(now)}
    for name, values in [*columns.items()]:
        if name != "id" and all(map(is_, values, repeat(values[0]))):
            same[name] = values[0]
            del columns[name]
    creation.insert_steps(tx, columns, same)
    edges = [(p.id, dependency.id) for p in placements for dependency in p.dependencies]
    if edges:
        creation.insert_edges(tx, edges)
