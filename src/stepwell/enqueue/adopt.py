"""Adopting rows written by plain SQL: the documented INSERT needs only an action; the rest is filled in here."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from stepwell.define.drafts import NewStep, ResolvedStep
from stepwell.enqueue.check_row import check_row
from stepwell.enqueue.create import Creator
from stepwell.enqueue.create.announce import created
from stepwell.enqueue.create.enrol import enrol
from stepwell.enqueue.create.neighbours import write_neighbours
from stepwell.enqueue.place import Names, Placement, place
from stepwell.enqueue.place.blocks import refuse_names_of_blocks
from stepwell.enqueue.resolve import declarations_for, resolve_settings
from stepwell.enqueue.set_aside import log_set_aside
from stepwell.enqueue.unresolved import note_unresolved
from stepwell.model.actors import ADOPTION
from stepwell.model.errors import InvalidStep
from stepwell.model.states import State
from stepwell.store import Transaction
from stepwell.store.engine import adoption
from stepwell.store.engine.adoption import NewRow

BATCH: Final = 500


def adopt_new_steps(tx: Transaction, creator: Creator, now: datetime, *, only: int | None = None) -> int:
    """Place new rows (or one, with what goes before it), each after its parent; returns how many were processed."""
    if only is None:
        rows = adoption.new_steps(tx, limit=BATCH)
    else:
        row = adoption.new_step(tx, id=only)
        rows = [] if row is None else [row]
    if not rows:
        return 0
    names, done, refused = creator.names(tx), set[int](), list[tuple[int, str]]()
    for row in rows:
        _adopt_with_parents(tx, row, names, done, now, refused)
    log_set_aside(tx, refused, ADOPTION, now)
    return len(rows)


def _adopt_with_parents(
    tx: Transaction, row: NewRow, names: Names, done: set[int], now: datetime, refused: list[tuple[int, str]]
) -> None:
    path = [row]  # a row, its parent (or block root) that must be adopted before it, the parent of that, …
    while path:
        row = path[-1]
        if row.id in done:
            path.pop()
            continue
        above = adoption.new_parent(tx, parent=row.parent_step_id, block=row.block_uuid, uuid=row.uuid)
        if above is None:
            if (problem := _adopt(tx, row, names, now)) is not None:
                refused.append((row.id, problem))
        elif above.state.is_terminal:
            ended = f"step {above.id} was {above.state} before it was adopted, so no step can be added to it"
            refused.append((row.id, _refuse(tx, row, ended, names, now)))
        elif above.id in [step.id for step in path]:
            cycle = " → ".join(f"step {step.id} ({step.label or step.action})" for step in path)
            refused.append((row.id, _refuse(tx, row, f"these steps are each other's parents: {cycle}", names, now)))
        elif (parent := adoption.new_step(tx, id=above.id)) is not None:
            path.append(parent)
            continue
        else:
            return  # another dispatcher is adopting the parent: the next round adopts this row
        done.add(row.id)


def _adopt(tx: Transaction, row: NewRow, names: Names, now: datetime) -> str | None:
    """Place a row; returns why it was refused, if it was."""
    try:
        check_row(tx, row)
        placement = _placement(tx, row)
        refuse_names_of_blocks(tx, [placement.uuid])
        _, neighbours = place(tx, [placement], names)
    except InvalidStep as error:
        return _refuse(tx, row, str(error), names, now)
    _write_place(tx, placement, now)
    note_unresolved(tx, [(row.id, placement.draft)])
    write_neighbours(tx, neighbours, [placement])
    if row.type == "resolve-exception":
        adoption.make_dormant(tx, id=row.id, actor=ADOPTION, now=now)
    adoption.delete_new_entry(tx, id=row.id)
    enrol(tx, [row.id], now)
    return None


def _placement(tx: Transaction, row: NewRow) -> Placement:
    draft = NewStep(
        action=row.action,
        label=row.label,
        type=row.type,
        parent=row.parent_step_id,
        block=row.block_uuid,
        child_block=row.child_block_uuid,
        index=row.index,
        workflow=row.workflow_id,
        group=row.group,
        queue=row.queue,
        priority=row.priority,
        max_retries=row.max_retries,
        timeout=row.timeout,
        cooldown=row.cooldown,
        concurrency_key=row.concurrency_key,
        concurrency_limit=row.concurrency_limit,
    )
    declared = declarations_for(tx, [row.action]).get(row.action)
    return Placement.of(resolve_settings(draft, row.arguments, declared), uuid=row.uuid, id=row.id)


def _write_place(tx: Transaction, placement: Placement, now: datetime) -> None:
    adoption.place_step(
        tx,
        id=placement.id,
        workflow_id=placement.workflow,
        parent_step_id=placement.parent_id,
        block_uuid=placement.block,
        index=placement.index,
        group=placement.group,
        queue=placement.queue,
        priority=placement.priority,
        max_retries=placement.draft.max_retries,
        timeout=float(placement.draft.timeout),
        cooldown=float(placement.draft.cooldown),
        concurrency_key=placement.draft.concurrency_key,
        concurrency_limit=placement.draft.concurrency_limit,
        shares_block=placement.block != placement.uuid,
        belongs_to=placement.belongs_to,
    )
    if tx.collects_changes:  # only now: plain SQL reported nothing
        tx.changed([created(placement.id, placement.workflow, placement.draft.action, State.PENDING, None, now)])


def _refuse(tx: Transaction, row: NewRow, message: str, names: Names, now: datetime) -> str:
    """Fail the row with the reason, in a block and a workflow of its own, so that it is not lost."""
    placement = Placement.of(ResolvedStep(action=row.action), uuid=row.uuid, id=row.id)
    place(tx, [placement], names)
    _write_place(tx, placement, now)
    adoption.refuse_step(tx, id=row.id, actor=ADOPTION, message=message, now=now)
    return message
