"""Writing one step without connections: the most common call, in the fewest round trips."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stepwell.define.drafts import NewStep, ResolvedStep, due
from stepwell.enqueue.create.announce import created
from stepwell.enqueue.place import Names, names_others
from stepwell.enqueue.place.queues import queue_of
from stepwell.model.states import State
from stepwell.model.step import StepRef
from stepwell.store import Transaction
from stepwell.store.engine import creation


def is_alone(drafts: Sequence[NewStep]) -> bool:
    """Whether it is a single step without connections, key or chosen uuid, which `create_independent` can write."""
    if len(drafts) != 1:
        return False
    (draft,) = drafts
    return (
        not names_others(draft)
        and draft.key is None
        and draft.belongs_to is None
        and draft.uuid is None
        and draft.type == "default"
        and draft.index in (None, 0, 1)
        and draft.trigger_rule == "all_concluded"
    )


def write_alone(
    tx: Transaction, draft: ResolvedStep, arguments: str, now: datetime, uuid: str, names: Names
) -> StepRef:
    """Insert the step, add it to the agenda and send the wake-ups, in one statement."""
    kind, of = draft.relatable or (None, None)
    moment = due(draft, now)
    number = creation.create_independent(
        tx,
        uuid=uuid,
        action=draft.action,
        arguments=arguments,
        label=draft.label,
        relatable_type=kind,
        relatable_id=None if of is None else str(of),
        queue=queue_of(draft.queue, draft.priority or "default", names.queues),
        rotation=names.rotation,
        priority=draft.priority or "default",
        max_retries=draft.max_retries,
        dispatch_after=moment,
        timeout=float(draft.timeout),
        cooldown=float(draft.cooldown),
        concurrency_key=draft.concurrency_key,
        concurrency_limit=draft.concurrency_limit,
        now=now,
        wakes=creation.wakes_of_new(tx, concurrency_key=draft.concurrency_key, dispatch_after=moment),
    )
    if tx.collects_changes:
        tx.changed([created(number, uuid, draft.action, State.PENDING, None, now)])
    return StepRef(number, uuid)
