"""Adopting rows that plain SQL wrote: the documented INSERT needs only an action, the rest is filled in here."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from stepwell import codec
from stepwell.enqueue.create import Creator, enrol, write_neighbours
from stepwell.enqueue.draft import NewStep
from stepwell.enqueue.place import Placement, place
from stepwell.model.errors import InvalidStep
from stepwell.store import Row, Transaction

ACTOR: Final = "adoption"
BATCH: Final = 500


def adopt_new_steps(tx: Transaction, creator: Creator, now: datetime) -> int:
    """Give every new row its place, one after the other (they may be each other's parents); returns how many."""
    rows = tx.rows("new_steps", limit=BATCH)
    if not rows:
        return 0
    queues, rotation = creator.names(tx)
    for row in rows:
        try:
            codec.decode(row["arguments"])
            placement = _placement(row)
            around = place(tx, [placement], queues, rotation)
        except (InvalidStep, ValueError) as error:
            _refuse(tx, row, str(error), queues, rotation, now)
            continue
        _settle(tx, placement)
        write_neighbours(tx, around, [placement])
        if row["type"] == "resolve-exception":
            tx.change("send_to_sleep", id=row["id"], actor=ACTOR, now=now)
        tx.change("leave_new", id=row["id"])
        enrol(tx, [row["id"]], now)
    return len(rows)


def _placement(row: Row) -> Placement:
    draft = NewStep(
        action=row["action"],
        label=row["label"],
        type=row["type"],
        parent=row["parent_step_id"],
        block=row["block_uuid"],
        child_block=row["child_block_uuid"],
        index=row["index"],
        workflow=row["workflow_id"],
        group=row["group"],
        queue=row["queue"] if row["queue"] != "default" or row["priority"] != "high" else None,
        priority=row["priority"],
    )
    return Placement(draft, uuid=row["uuid"], id=row["id"])


def _settle(tx: Transaction, placement: Placement) -> None:
    tx.change(
        "place_step",
        id=placement.id,
        workflow_id=placement.workflow,
        parent_step_id=placement.parent_id,
        block_uuid=placement.block,
        index=placement.index,
        group=placement.group,
        queue=placement.queue,
        priority=placement.priority,
    )


def _refuse(tx: Transaction, row: Row, message: str, queues: set[str], rotation: list[str], now: datetime) -> None:
    """Nothing is lost: the row ends Failed with the reason, in a block and a workflow of its own."""
    placement = Placement(NewStep(action=row["action"]), uuid=row["uuid"], id=row["id"])
    place(tx, [placement], queues, rotation)
    _settle(tx, placement)
    tx.change("refuse_step", id=row["id"], actor=ACTOR, message=message, now=now)
