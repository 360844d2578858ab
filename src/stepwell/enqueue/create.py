"""Creating steps: check, place, write, and mark what the new ones may decide, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from stepwell import codec
from stepwell.enqueue.draft import NewStep, check, due
from stepwell.enqueue.place import Neighbours, Placement, id_of, place
from stepwell.model.errors import InvalidStep, KeyConflict
from stepwell.model.reasons import DORMANT
from stepwell.model.states import State
from stepwell.model.step import StepRef
from stepwell.store import Database, Transaction

_ALWAYS: Final = (
    "id", "uuid", "workflow_id", "block_uuid", "index", "action", "arguments", "queue", "group", "state",
    "max_retries", "placed", "created_at", "updated_at",
)  # fmt: skip
# Written only when a step of the call needs them: a narrow COPY is a fast one.
_SOMETIMES: Final[dict[str, Any]] = {
    "parent_step_id": None, "child_block_uuid": None, "type": "default", "label": None, "relatable_type": None,
    "relatable_id": None, "priority": "default", "reason": None, "trigger_rule": "all_concluded", "dependencies": 0,
    "followed": False, "has_children": False, "dispatch_after": None, "timeout": 0.0, "cooldown": 0.0,
    "idempotency_key": None,
}  # fmt: skip


class Creator:
    """Writes new steps; keeps the names of queues and groups that it has seen."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queues: set[str] = set()
        self._rotation: list[str] = []

    def create(self, drafts: Iterable[NewStep], now: datetime, connection: Any = None) -> list[StepRef]:
        """Create them all or none, in the caller's transaction if a connection is given."""
        drafts = list(drafts)
        if len({id(draft) for draft in drafts}) < len(drafts):
            raise InvalidStep("the same NewStep stands in the call twice")
        for draft in drafts:
            check(draft)
        arguments = [codec.encode(draft.arguments) for draft in drafts]
        if not drafts:
            return []
        if connection is not None:
            return self._write(self._database.within(connection), drafts, arguments, now)
        return self._database.transact(lambda tx: self._write(tx, drafts, arguments, now))

    def _write(
        self, tx: Transaction, drafts: Sequence[NewStep], arguments: Sequence[str], now: datetime
    ) -> list[StepRef]:
        known = _with_known_keys(tx, drafts, arguments)
        placements = {id(draft): Placement(draft) for draft in drafts if id(draft) not in known}
        fresh = list(placements.values())
        self._learn_names(tx, drafts)
        around = place(tx, fresh, self._queues, self._rotation)
        encoded = {id(draft): text for draft, text in zip(drafts, arguments, strict=True)}
        _insert(tx, around.parents_first, encoded, now)
        write_neighbours(tx, around, fresh)
        enrol(tx, [placement.id for placement in fresh], now)
        return [
            known.get(id(draft)) or StepRef(placements[id(draft)].id, placements[id(draft)].uuid) for draft in drafts
        ]

    def _learn_names(self, tx: Transaction, drafts: Iterable[NewStep]) -> None:
        if not self._rotation:
            self._rotation = [row["group"] for row in tx.rows("rotation")]
        if any(draft.queue is not None and draft.queue not in self._queues for draft in drafts):
            self._queues = {row["name"] for row in tx.rows("queue_names")}

    def names(self, tx: Transaction) -> tuple[set[str], list[str]]:
        """The queues and the rotation of groups as they are now (for adopting rows)."""
        return {row["name"] for row in tx.rows("queue_names")}, [row["group"] for row in tx.rows("rotation")]


def _with_known_keys(tx: Transaction, drafts: Sequence[NewStep], arguments: Sequence[str]) -> dict[int, StepRef]:
    """Steps of this call whose idempotency key was used before: they exist, and are not created again."""
    known: dict[int, StepRef] = {}
    seen: dict[str, NewStep] = {}
    for draft, text in zip(drafts, arguments, strict=True):
        if draft.key is None:
            continue
        if draft.key in seen:
            raise InvalidStep(f"two steps of one call have the key {draft.key!r}")
        seen[draft.key] = draft
        tx.rows("lock_name", name=f"key {draft.key}")
        if (row := tx.row("step_with_key", key=draft.key)) is not None:
            if (row["action"], codec.decode(row["arguments"])) != (draft.action, codec.decode(text)):
                raise KeyConflict(
                    f"the key {draft.key!r} belongs to step {row['id']} ({row['action']}), "
                    "which has another action or other arguments; nothing was written"
                )
            known[id(draft)] = StepRef(row["id"], row["uuid"])
    return known


def _insert(tx: Transaction, placements: Sequence[Placement], encoded: dict[int, str], now: datetime) -> None:
    if not placements:
        return
    for placement, row in zip(placements, tx.rows("next_step_ids", count=len(placements)), strict=True):
        placement.id = row["id"]
    moment = tx.moment(now)
    extras = [_sometimes(tx, placement, now) for placement in placements]
    used = [column for column in _SOMETIMES if any(column in extra for extra in extras)]
    rows = (
        (
            placement.id, placement.uuid, placement.workflow, placement.block, placement.index,
            placement.draft.action, encoded[id(placement.draft)], placement.queue, placement.group,
            State.NOT_RUNNABLE.value if placement.draft.type == "resolve-exception" else State.PENDING.value,
            placement.draft.max_retries, True, moment, moment,
            *(extra.get(column, _SOMETIMES[column]) for column in used),
        )
        for placement, extra in zip(placements, extras, strict=True)
    )  # fmt: skip
    tx.insert("steps", (*_ALWAYS, *used), rows)
    edges = [(p.id, id_of(dependency)) for p in placements for dependency in p.dependencies]
    if edges:
        tx.insert("step_dependencies", ("step_id", "depends_on_id"), edges)


def _sometimes(tx: Transaction, placement: Placement, now: datetime) -> dict[str, Any]:
    draft = placement.draft
    after = due(draft, now)
    values = {
        "parent_step_id": placement.parent_id,
        "child_block_uuid": placement.child_block,
        "type": draft.type,
        "label": draft.label,
        "relatable_type": draft.relatable[0] if draft.relatable else None,
        "relatable_id": str(draft.relatable[1]) if draft.relatable else None,
        "priority": placement.priority,
        "reason": DORMANT if draft.type == "resolve-exception" else None,
        "trigger_rule": draft.trigger_rule,
        "dependencies": len(placement.dependencies),
        "followed": placement.followed,
        "has_children": placement.has_children,
        "dispatch_after": None if after is None else tx.moment(after),
        "timeout": float(draft.timeout),
        "cooldown": float(draft.cooldown),
        "idempotency_key": draft.key,
    }
    return {column: value for column, value in values.items() if value != _SOMETIMES[column]}


def write_neighbours(tx: Transaction, around: Neighbours, placements: Iterable[Placement]) -> None:
    """What the new steps mean for those that were there before."""
    for parent_id, child_block in sorted(around.child_blocks.items()):
        tx.change("take_children", id=parent_id, child_block=child_block)
    if around.followed:
        tx.change("follow_steps", ids=tx.array(sorted(around.followed)))
    for block in sorted(around.joined_root_blocks):
        tx.change("follow_block", block=block)
        tx.change("enrol_block", block=block)
    lowest: dict[tuple[str, str], int] = {}
    for placement in placements:
        if placement.block in around.joined_blocks:
            level = (placement.block, placement.draft.type)
            lowest[level] = min(placement.index, lowest.get(level, placement.index))
    for (block, kind), index in sorted(lowest.items()):
        tx.change("close_gates_behind", block=block, type=kind, index=index)


def enrol(tx: Transaction, ids: Sequence[int], now: datetime) -> None:
    """Put new steps where ticks will find them."""
    for first, last in _runs(ids):
        tx.change("enrol_in_blocks", first=first, last=last)
        tx.change("enrol_on_agenda", first=first, last=last, now=now)
        tx.change("enrol_on_marks", first=first, last=last)


def _runs(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The ids as ranges without gaps.

    >>> list(_runs([4, 5, 6, 9]))
    [(4, 6), (9, 9)]
    """
    start = last = None
    for number in sorted(ids):
        if last is not None and start is not None and number != last + 1:
            yield start, last
            start = number
        start = number if start is None else start
        last = number
    if start is not None and last is not None:
        yield start, last
