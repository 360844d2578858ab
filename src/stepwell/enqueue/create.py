"""Creating steps: check, place, write, and mark what the new ones may decide, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from stepwell.define.drafts import NewStep, check, due, encode_arguments
from stepwell.enqueue.place import (
    Neighbours,
    Placement,
    id_of,
    names_others,
    normal_uuid,
    place,
    queue_of,
    refuse_names_of_blocks,
)
from stepwell.model import codec
from stepwell.model.errors import DatabaseBusy, InvalidStep, KeyConflict, StepwellError
from stepwell.model.ids import uuid7, uuid7s
from stepwell.model.reasons import DORMANT
from stepwell.model.states import State
from stepwell.model.step import StepRef
from stepwell.store import Database, Transaction, Wake
from stepwell.store.conflict import Conflict
from stepwell.store.engine import agenda, creation
from stepwell.store.engine import placement as placement_verbs
from stepwell.store.engine.placement import ExistingStep

_PENDING: Final = State.PENDING.value
_NOT_RUNNABLE: Final = State.NOT_RUNNABLE.value
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
    "state": lambda placement: _NOT_RUNNABLE if _is_dormant(placement) else _PENDING,
    "max_retries": attrgetter("draft.max_retries"),
}
# With the columns' own defaults: written only when a step of the call differs, for a narrow COPY is a fast one.
_SOMETIMES: Final[dict[str, tuple[Any, Column]]] = {
    "parent_step_id": (None, attrgetter("parent_id")),
    "child_block_uuid": (None, attrgetter("child_block")),
    "type": ("default", attrgetter("draft.type")),
    "label": (None, attrgetter("draft.label")),
    "relatable_type": (None, lambda placement: placement.draft.relatable and placement.draft.relatable[0]),
    "relatable_id": (None, lambda placement: placement.draft.relatable and str(placement.draft.relatable[1])),
    "priority": ("default", attrgetter("priority")),
    "reason": (None, lambda placement: DORMANT if _is_dormant(placement) else None),
    "trigger_rule": ("all_concluded", attrgetter("draft.trigger_rule")),
    "dependencies": (0, lambda placement: len(placement.dependencies)),
    "has_dependents": (False, attrgetter("has_dependents")),
    "has_children": (False, attrgetter("has_children")),
    "timeout": (0.0, lambda placement: float(placement.draft.timeout)),
    "cooldown": (0.0, lambda placement: float(placement.draft.cooldown)),
    "idempotency_key": (None, attrgetter("draft.key")),
    "concurrency_key": (None, attrgetter("draft.concurrency_key")),
    "concurrency_limit": (1, attrgetter("draft.concurrency_limit")),
}


class Creator:
    """Writes new steps; keeps the names of queues and groups that it has seen.

    `declared` tells the queues that the app names, which exist from their first step on.
    """

    def __init__(self, database: Database, declared: Callable[[], Collection[str]] = frozenset) -> None:
        self._database = database
        self._declared = declared
        self._queues: set[str] = set()
        self._rotation: list[str] = []

    def create(self, drafts: Iterable[NewStep], now: datetime, connection: Any = None) -> list[StepRef]:
        """Create them all or none, in the caller's transaction if a connection is given."""
        drafts = list(drafts)
        arguments = _checked(drafts)
        if not drafts:
            return []
        if connection is not None:
            try:
                return self._write(self._database.within(connection), drafts, arguments, now)
            except Conflict as conflict:
                raise DatabaseBusy(
                    f"another transaction is in the way of yours ({conflict}): roll yours back and try it again"
                ) from conflict
        if _is_lone(drafts):
            uuid = uuid7()  # here, so that it is the same step if it has to be said twice
            return self._database.transact(
                lambda tx: [self._write_alone(tx, drafts[0], arguments[0], now, uuid)], single=True
            )
        return self._database.transact(lambda tx: self._write(tx, drafts, arguments, now))

    def create_in(self, tx: Transaction, drafts: Sequence[NewStep], now: datetime) -> list[StepRef]:
        """Create them in a transaction of ours that does more than that."""
        return self._write(tx, drafts, _checked(drafts), now)

    def _write(
        self, tx: Transaction, drafts: Sequence[NewStep], arguments: Sequence[str], now: datetime
    ) -> list[StepRef]:
        if _is_lone(drafts):
            return [self._write_alone(tx, drafts[0], arguments[0], now, uuid7())]
        known = _with_known_keys(tx, drafts, arguments)
        placements = [
            Placement(draft, uuid if draft.uuid is None else normal_uuid(draft.uuid, "uuid"), arguments=text)
            for draft, uuid, text in zip(drafts, uuid7s(len(drafts)), arguments, strict=True)
            if draft.identity not in known
        ]
        if placements:
            _refuse_taken_uuids(tx, placements)
            queues = self._learn_names(tx, drafts)
            around = place(tx, placements, queues, self._rotation, known)
            _insert(tx, around.parents_first, now)
            write_neighbours(tx, around, placements)
            _enrol_created(tx, placements, around, now)
        created = {placement.draft.identity: StepRef(placement.id, placement.uuid) for placement in placements}
        return [known.get(draft.identity) or created[draft.identity] for draft in drafts]

    def _write_alone(self, tx: Transaction, draft: NewStep, arguments: str, now: datetime, uuid: str) -> StepRef:
        """The commonest call of all, in the fewest round trips."""
        queues = self._learn_names(tx, [draft])
        kind, of = draft.relatable or (None, None)
        moment = due(draft, now)
        wakes = [Wake.WORK] if draft.concurrency_key is None and moment is None else [Wake.WORK, Wake.DECISIONS]
        number = creation.create_alone(
            tx,
            uuid=uuid,
            action=draft.action,
            arguments=arguments,
            label=draft.label,
            relatable_type=kind,
            relatable_id=None if of is None else str(of),
            queue=queue_of(draft.queue, draft.priority, queues),
            rotation=self._rotation,
            priority=draft.priority,
            max_retries=draft.max_retries,
            dispatch_after=moment,
            timeout=float(draft.timeout),
            cooldown=float(draft.cooldown),
            concurrency_key=draft.concurrency_key,
            concurrency_limit=draft.concurrency_limit,
            now=now,
            wakes=tx.wakes_to_send(*wakes),
        )
        return StepRef(number, uuid)

    def _learn_names(self, tx: Transaction, drafts: Iterable[NewStep]) -> set[str]:
        """The queues that there are for these steps."""
        if not self._rotation:
            self._rotation = creation.rotation(tx)
            if not self._rotation:
                raise StepwellError(
                    "no group has a place in the rotation (a column of `steps_dispatcher`): "
                    "new steps would belong nowhere; nothing was written"
                )
        asked = {draft.queue for draft in drafts if draft.queue is not None}
        if asked <= self._queues:
            return self._queues
        self._queues = set(creation.queue_names(tx))
        new = (asked - self._queues).intersection(self._declared())
        for queue in sorted(new):
            creation.add_queue(tx, name=queue)
        return self._queues | new  # not yet among those it has seen: this transaction may be rolled back

    def names(self, tx: Transaction) -> tuple[set[str], list[str]]:
        """The queues and the rotation of groups as they are now (for adopting rows)."""
        queues = set(creation.queue_names(tx))
        for queue in sorted(new := {*self._declared()} - queues):
            creation.add_queue(tx, name=queue)
        return queues | new, creation.rotation(tx)


def _is_lone(drafts: Sequence[NewStep]) -> bool:
    """Whether it is one step that has to do with no other, which `create_alone` writes."""
    if len(drafts) != 1:
        return False
    (draft,) = drafts
    return (
        not names_others(draft)
        and draft.key is None
        and draft.uuid is None
        and draft.type == "default"
        and draft.index in (None, 0, 1)
        and draft.trigger_rule == "all_concluded"
    )


def _checked(drafts: Sequence[NewStep]) -> list[str]:
    """Refuse what can be refused without a database; returns their arguments as JSON."""
    if len({draft.identity for draft in drafts}) < len(drafts):
        raise InvalidStep("the same NewStep stands in the call twice")
    for draft in drafts:
        check(draft)
    return [encode_arguments(draft) for draft in drafts]


def _refuse_taken_uuids(tx: Transaction, placements: Sequence[Placement]) -> None:
    chosen = [placement.uuid for placement in placements if placement.draft.uuid is not None]
    if not chosen:
        return
    taken = [row.uuid for row in placement_verbs.lock_steps(tx, ids=[], uuids=chosen)]
    if taken or len(set(chosen)) < len(chosen):
        raise InvalidStep(f"a step with the uuid {(taken or chosen)[0]} exists already; nothing was written")
    refuse_names_of_blocks(tx, chosen)


def _with_known_keys(tx: Transaction, drafts: Sequence[NewStep], arguments: Sequence[str]) -> dict[int, StepRef]:
    """Steps of this call whose idempotency key was used before: they exist, and are not created again."""
    keyed: dict[str, tuple[NewStep, str]] = {}
    for draft, text in zip(drafts, arguments, strict=True):
        if draft.key is not None:
            if draft.key in keyed:
                raise InvalidStep(f"two steps of one call have the key {draft.key!r}")
            keyed[draft.key] = draft, text
    if not keyed:
        return {}
    keys = list(keyed)
    creation.lock_keys(tx, keys=keys)
    known: dict[int, StepRef] = {}
    for row in creation.steps_with_keys(tx, keys=keys):
        draft, text = keyed[row.idempotency_key]
        if (row.action, codec.decode(row.arguments)) != (draft.action, codec.decode(text)):
            raise KeyConflict(
                f"the key {draft.key!r} belongs to step {row.id} ({row.action}), "
                "which has another action or other arguments; nothing was written"
            )
        known[draft.identity] = StepRef(row.id, row.uuid)
    return known


def _insert(tx: Transaction, placements: Sequence[Placement], now: datetime) -> None:
    for placement, number in zip(placements, creation.take_step_ids(tx, len(placements)), strict=True):
        placement.id = number
    columns = {name: list(map(read, placements)) for name, read in _ALWAYS.items()}
    for name, (usual, read) in _SOMETIMES.items():
        values = list(map(read, placements))
        if values.count(usual) < len(values):
            columns[name] = values
    moments = [due(placement.draft, now) for placement in placements]
    if moments.count(None) < len(moments):
        columns["dispatch_after"] = [None if moment is None else tx.moment(moment) for moment in moments]
    for name, value in {"placed": True, "created_at": tx.moment(now), "updated_at": tx.moment(now)}.items():
        columns[name] = [value] * len(placements)
    creation.insert_steps(tx, list(columns), zip(*columns.values(), strict=True))
    edges = [(p.id, id_of(dependency)) for p in placements for dependency in p.dependencies]
    if edges:
        creation.insert_edges(tx, edges)


def write_neighbours(tx: Transaction, around: Neighbours, placements: Iterable[Placement]) -> None:
    """What the new steps mean for those that were there before."""
    for parent_id, child_block in sorted(around.child_blocks.items()):
        creation.take_children(tx, id=parent_id, child_block=child_block)
    if around.has_dependents:
        creation.note_dependents(tx, ids=sorted(around.has_dependents))
    for block in sorted(around.joined_root_blocks):
        creation.note_block_dependents(tx, block=block)
        creation.enrol_block(tx, block=block)
    lowest: dict[tuple[str, str], int] = {}
    for placement in placements:
        if placement.block in around.joined_blocks:
            level = (placement.block, placement.draft.type)
            lowest[level] = min(placement.index, lowest.get(level, placement.index))
    for (block, kind), index in sorted(lowest.items()):
        creation.withdraw_successors(tx, block=block, type=kind, index=index)


def _enrol_created(tx: Transaction, placements: Sequence[Placement], around: Neighbours, now: datetime) -> None:
    """What `enrol` does, without asking for what the placements already say."""
    created = _span(tx, [placement.id for placement in placements])
    together = [placement for placement in placements if placement.shares_block or placement.dependencies]
    if any(_is_for_a_tick(placement.draft) for placement in placements):
        tx.wake(Wake.DECISIONS)
    if len(together) < len(placements):
        creation.enrol_on_agenda(tx, **created, now=now)
    if together:
        creation.enrol_in_blocks(tx, **created)
        looked_at = _to_be_looked_at(together, around)
        roots = [placement.id for placement in looked_at if placement.parent is None]
        if roots:
            agenda.open_ready(tx, ids=roots, now=now)
        if looked_at:
            creation.enrol_on_marks(tx, **_span(tx, [placement.id for placement in looked_at]))


def _to_be_looked_at(together: Sequence[Placement], around: Neighbours) -> list[Placement]:
    """All but those that have to do with new steps alone, and wait for one of them: its end will see to them."""
    lowest: dict[tuple[str, str], int] = {}
    for placement in together:
        level = (placement.block, placement.draft.type)
        lowest[level] = min(placement.index, lowest.get(level, placement.index))

    def is_left_to_them(placement: Placement) -> bool:
        if _is_dormant(placement) or _is_dormant(placement.parent) or placement.block in around.joined_blocks:
            return False
        waits_for = [other for other in (placement.parent, *placement.dependencies) if other is not None]
        is_behind = placement.index > lowest[placement.block, placement.draft.type]
        return all(isinstance(other, Placement) for other in waits_for) and bool(waits_for or is_behind)

    return [placement for placement in together if not is_left_to_them(placement)]


def _is_dormant(placement: Placement | ExistingStep | None) -> bool:
    return isinstance(placement, Placement) and placement.draft.type == "resolve-exception"


def _is_for_a_tick(draft: NewStep) -> bool:
    """Whether a tick has to let it pass before any worker can see it."""
    return draft.concurrency_key is not None or draft.delay is not None or draft.dispatch_after is not None


def enrol(tx: Transaction, ids: Sequence[int], now: datetime) -> None:
    """Put new steps where ticks will find them."""
    new = _span(tx, ids)
    creation.enrol_in_blocks(tx, **new)
    creation.enrol_on_agenda(tx, **new, now=now)
    creation.enrol_on_marks(tx, **new)


def _span(tx: Transaction, ids: Sequence[int]) -> dict[str, Any]:
    """From the first id to the last; the ids themselves only if others took some in between."""
    first, last = min(ids), max(ids)
    return {"first": first, "last": last, "ids": list(ids) if last - first + 1 > len(ids) else None}
