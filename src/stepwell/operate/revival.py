"""Reviving steps: which ended because of another one, and what keeps them from being revived."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stepwell.model.errors import ActionRefused
from stepwell.model.reasons import CHILDREN_FAILED, DORMANT, REVIVED
from stepwell.model.states import RETRIABLE, TROUBLE, UNFINISHED, State
from stepwell.model.step import Step
from stepwell.store import Transaction
from stepwell.store.engine import operator, reading
from stepwell.store.engine.operator import LockedStep
from stepwell.store.missing import missing_step


def lock(tx: Transaction, step_id: int) -> LockedStep:
    found = operator.lock_for_revival(tx, ids=[step_id])
    if not found:
        raise missing_step(tx, id=step_id)
    return found[0]


def refuse_unretriable(target: LockedStep) -> None:
    state = target.state
    if state in RETRIABLE:
        return
    if state is State.NOT_RUNNABLE and target.reason == DORMANT:
        hint = "it is a dormant exception handler, which runs only after a failure in its block"
    elif state is State.NOT_RUNNABLE:
        hint = "it waits for a step that failed; retry that step, and this one is revived with it"
    elif state in UNFINISHED:
        hint = "it has not ended yet"
    else:
        hint = "it has already concluded"
    raise ActionRefused(f"{target} is {state} and cannot be retried: {hint}; nothing changed")


def revivable_ancestors(tx: Transaction, target: LockedStep) -> list[LockedStep]:
    """The ancestors that failed only because of their children; refuses if one ended for another reason."""
    found: list[LockedStep] = []
    row = target
    while row.parent_step_id is not None:
        row = lock(tx, row.parent_step_id)
        state = row.state
        if state in UNFINISHED:
            break
        if state is not State.FAILED or row.reason != CHILDREN_FAILED:
            raise ActionRefused(
                f"{target} cannot be retried because its ancestor {row} has ended "
                f"({state}, {row.reason or 'no reason'}): retry that one; nothing changed"
            )
        found.append(row)
    return found


def steps_to_revive(tx: Transaction, with_descendants: set[int], alone: set[int]) -> set[int]:
    """All steps to revive, transitively: successors of both sets, and the descendants of `with_descendants`.

    A successor may have other ancestors. If those failed only because of their children, they are revived, too; if one
    ended for another reason, the successor is not revived: nothing can run below an ended parent.
    """
    waiting: dict[int | None, set[int]] = {}  # successors by their parents
    new = with_descendants | alone
    while new:
        for successor in operator.revivable_successors(tx, ids=sorted(new)):
            waiting.setdefault(successor.parent_step_id, set()).add(successor.id)
        found, ancestors = set(operator.revivable_children(tx, ids=sorted(new & with_descendants))), set[int]()
        for parent_id in list(waiting):
            chain = _ancestors_to_revive(tx, parent_id, with_descendants | alone | found)
            if chain is not None:
                ancestors |= chain
                found |= waiting.pop(parent_id)
        new = (found | ancestors) - with_descendants - (alone - found)
        with_descendants |= found
        alone |= ancestors
    return with_descendants | alone


def _ancestors_to_revive(tx: Transaction, step_id: int | None, revived: set[int]) -> set[int] | None:
    """This step and its ancestors that failed only because of their children; None if one ended for another reason."""
    chain: set[int] = set()
    while step_id is not None and step_id not in revived:
        row = lock(tx, step_id)
        if row.state in UNFINISHED:
            break
        if row.state is not State.FAILED or row.reason != CHILDREN_FAILED:
            return None
        chain.add(step_id)
        step_id = row.parent_step_id
    return chain


def refuse_leased(rows: list[LockedStep]) -> None:
    for row in rows:
        if row.lease_worker is not None:
            raise ActionRefused(
                f"{row} is {row.state}, but its process is still running (worker {row.lease_worker}); "
                "nothing changed. Try again when it has ended"
            )


def refuse_pointless_retry(tx: Transaction, target: LockedStep, rows: list[LockedStep]) -> None:
    """A parent that failed because of its children would fail again at once if none of them is revived.

    A parent that ended for a reason of its own is retried in any case: before that, none of its children can be.
    """
    if target.reason != CHILDREN_FAILED or target.child_block_uuid is None:
        return
    revived = {row.id for row in rows}
    children = reading.steps_of_block(tx, block=target.child_block_uuid)
    blocking = [child for child in children if _keeps_parent_from_completing(child)]
    if blocking and not any(child.id in revived for child in blocking):
        raise ActionRefused(f"{target} would fail again at once: {_what_to_do(blocking)}; nothing changed")


def _what_to_do(blocking: Sequence[Step]) -> str:
    """What keeps a parent from completing: steps that were cancelled by hand, or wait for a failure outside of it."""
    cancelled = [child for child in blocking if child.state is not State.NOT_RUNNABLE]
    names = ", ".join(f"step {child.id} ({child.name})" for child in (cancelled or blocking)[:5])
    if cancelled:
        return f"{names} was cancelled by hand. Retry or skip that first"
    return f"{names} waits for a step that failed. Retry that one, and both are revived with it"


def revive_all(
    tx: Transaction, steps: Sequence[LockedStep], actor: str, now: datetime, *, reason: str = REVIVED
) -> None:
    """Return ended steps to Pending, or to Running if their own code is done; handlers become dormant again."""
    ids = [step.id for step in steps]
    operator.revive(tx, ids=ids, actor=actor, reason=reason, keep_plan=True, now=now)
    operator.recheck_dependents(tx, ids=ids)
    for step in steps:
        if step.type == "resolve-exception":
            operator.make_dormant_again(tx, id=step.id, actor=actor, now=now)


def steps_revived_by_conclusion(tx: Transaction, before: LockedStep, skipped: set[int]) -> list[LockedStep]:
    """A failure is resolved by hand: its successors are revived, and the parent that failed because of it.

    `skipped` are the descendants that are skipped with it: their successors are revived, too.

    Not below an ancestor that ended for another reason; and a parent that other children keep from completing is not
    revived, unless one of its descendants is.
    """
    if before.state not in TROUBLE:
        return []
    revived = steps_to_revive(tx, set(), {before.id} | skipped)
    parent_id = before.parent_step_id
    if parent_id is not None and not _siblings_keep_parent_from_completing(tx, parent_id, before.id):
        revived |= steps_to_revive(tx, set(), _ancestors_to_revive(tx, parent_id, revived) or set())
    steps = operator.lock_for_revival(tx, ids=sorted(revived - {before.id} - skipped))
    refuse_leased(steps)
    return steps


def revive_after_conclusion(tx: Transaction, steps: Sequence[LockedStep], actor: str, now: datetime) -> None:
    ids = [step.id for step in steps]
    operator.revive(tx, ids=ids, actor=actor, reason=REVIVED, keep_plan=True, now=now)
    operator.recheck_dependents(tx, ids=ids)


def _siblings_keep_parent_from_completing(tx: Transaction, parent_id: int, resolved: int) -> bool:
    children = reading.steps_of_block(tx, block=lock(tx, parent_id).child_block_uuid)
    return any(_keeps_parent_from_completing(child) for child in children if child.id != resolved)


def _keeps_parent_from_completing(child: Step) -> bool:
    return child.type == "default" and child.state in TROUBLE
