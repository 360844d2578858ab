"""Operator actions on a step: end it in any state, or retry it. Each is recorded with who did it and why.

A retry also revives the steps that ended because of this one: descendants that a cascade ended, successors that became
NotRunnable, and ancestors that failed only because of their children.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from stepwell.model import codec
from stepwell.model.actors import actor_of, reason_of, storable
from stepwell.model.errors import ActionRefused, StepNotFound
from stepwell.model.reasons import CHILDREN_FAILED, DORMANT, REVIVED
from stepwell.model.states import UNFINISHED, State
from stepwell.model.step import Retried, Step
from stepwell.store import Change, Database, Transaction
from stepwell.store.engine import operator, reading
from stepwell.store.engine.operator import LockedStep

_RETRIABLE = (State.FAILED, State.STOPPED, State.CANCELLED)


class _EndVerb(Protocol):
    def __call__(self, tx: Transaction, /, *, id: int, actor: str, reason: str, now: datetime) -> list[Change]: ...


class Actions:
    def __init__(self, database: Database) -> None:
        self._database = database

    def cancel(self, step_id: int, who: str, why: str | None = None) -> None:
        """Cancel a step; the next ticks cancel its descendants."""
        self._end(operator.cancel_by_hand, "cancelled", step_id, who, why)

    def fail(self, step_id: int, who: str, why: str | None = None) -> None:
        """End a step as Failed; the next ticks handle it like any other failure."""
        self._end(operator.fail_by_hand, "failed", step_id, who, why)

    def stop(self, step_id: int, who: str, why: str | None = None) -> None:
        """End a Running step as Stopped; the next ticks handle it like a step that stopped itself."""
        self._end(operator.stop_by_hand, "stopped", step_id, who, why)

    def _end(self, verb: _EndVerb, done: str, step_id: int, who: str, why: str | None) -> None:
        """Running code is notified; its lease is held until its process has ended."""
        actor, now = actor_of(who), self._database.now()

        def work(tx: Transaction) -> None:
            if not verb(tx, id=step_id, actor=actor, reason=reason_of(why), now=now):
                raise _refusal(tx, step_id, done)

        self._database.transact(work)

    def skip(self, step_id: int, who: str, why: str | None = None) -> None:
        """Conclude a step without running it; steps that could not run because of its failure are revived."""
        actor, now = actor_of(who), self._database.now()

        def work(tx: Transaction) -> None:
            operator.lock_group_of(tx, id=step_id)
            before = _lock(tx, step_id)
            skipped = set(operator.members_to_skip(tx, id=step_id))
            if not operator.skip_by_hand(tx, id=step_id, actor=actor, reason=reason_of(why), now=now):
                raise _refusal(tx, step_id, "skipped")
            _revive_after_conclusion(tx, before, skipped, actor, now)

        self._database.transact(work)

    def complete(self, step_id: int, who: str, why: str | None = None, response: Any = None) -> None:
        """Complete a step by hand, with a result; refused while it has children that are unfinished or never ran."""
        actor, now = actor_of(who), self._database.now()
        text = codec.encode(response, "result")

        def work(tx: Transaction) -> None:
            operator.lock_group_of(tx, id=step_id)
            before = _lock(tx, step_id)
            reason = reason_of(why)
            if not operator.complete_by_hand(tx, id=step_id, actor=actor, reason=reason, response=text, now=now):
                if before.state in (State.DISPATCHED, State.RUNNING):
                    raise ActionRefused(f"{before} is {before.state}: cancel it or wait until it ends; nothing changed")
                if before.state in (State.COMPLETED, State.SKIPPED):
                    raise _refusal(tx, step_id, "completed")
                if before.state is State.NOT_RUNNABLE:
                    raise ActionRefused(
                        f"{before} is NotRunnable and has children that never ran: skip it, which skips them too, or "
                        "retry or skip what it waits for; nothing changed"
                    )
                raise ActionRefused(f"{before} has unfinished children: cancel them first; nothing changed")
            _revive_after_conclusion(tx, before, set(), actor, now)

        self._database.transact(work)

    def retry(self, step_id: int, who: str, why: str | None = None) -> Retried:
        """Retry a failed, stopped or cancelled step now, and revive what ended because of it, as it was planned."""
        actor, now = actor_of(who), self._database.now()

        def work(tx: Transaction) -> Retried:
            operator.lock_group_of(tx, id=step_id)
            target = _lock(tx, step_id)
            _refuse_unretriable(target)
            ancestors = _revivable_ancestors(tx, target)
            revived = _steps_to_revive(tx, {step_id}, {step.id for step in ancestors})
            steps = operator.lock_for_revival(tx, ids=sorted(revived))
            _refuse_leased(steps)
            _refuse_pointless_retry(tx, target, steps)
            _revive(tx, revived - {step_id}, actor, now)
            operator.revive(tx, ids=[step_id], actor=actor, reason=reason_of(why), keep_plan=False, now=now)
            operator.recheck_dependents(tx, ids=sorted(revived))
            for step in steps:
                if step.type == "resolve-exception" and step.id != step_id:
                    operator.make_dormant_again(tx, id=step.id, actor=actor, now=now)
            return Retried(sorted(revived), operator.handlers_that_ran(tx, ids=sorted(revived)))

        return self._database.transact(work)

    def pause_workflow(self, workflow: str, who: str, why: str | None = None) -> None:
        """Stop dispatching the Pending steps of one workflow; running steps continue."""
        actor, now = actor_of(who), self._database.now()

        def work(tx: Transaction) -> None:
            operator.lock_groups_of_workflow(tx, workflow=workflow)
            operator.pause_workflow(tx, workflow=workflow, actor=actor, reason=storable(why), now=now)
            operator.remove_workflow_from_agenda(tx, workflow=workflow)

        self._database.transact(work)

    def resume_workflow(self, workflow: str, who: str) -> None:
        actor_of(who)

        def work(tx: Transaction) -> None:
            if not operator.resume_workflow(tx, workflow=workflow):
                raise ActionRefused(f"workflow {workflow} is not paused")
            operator.mark_workflow(tx, workflow=workflow)

        self._database.transact(work)


def _lock(tx: Transaction, step_id: int) -> LockedStep:
    found = operator.lock_for_revival(tx, ids=[step_id])
    if not found:
        raise StepNotFound(f"step {step_id} does not exist")
    return found[0]


def _refusal(tx: Transaction, step_id: int, done: str) -> ActionRefused:
    row = _lock(tx, step_id)
    return ActionRefused(f"{row} is {row.state} and cannot be {done}; nothing changed")


def _refuse_unretriable(target: LockedStep) -> None:
    state = target.state
    if state in _RETRIABLE:
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


def _revivable_ancestors(tx: Transaction, target: LockedStep) -> list[LockedStep]:
    """The ancestors that failed only because of their children; refuses if one ended for another reason."""
    found: list[LockedStep] = []
    row = target
    while row.parent_step_id is not None:
        row = _lock(tx, row.parent_step_id)
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


def _steps_to_revive(tx: Transaction, with_descendants: set[int], alone: set[int]) -> set[int]:
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
        row = _lock(tx, step_id)
        if row.state in UNFINISHED:
            break
        if row.state is not State.FAILED or row.reason != CHILDREN_FAILED:
            return None
        chain.add(step_id)
        step_id = row.parent_step_id
    return chain


def _refuse_leased(rows: list[LockedStep]) -> None:
    for row in rows:
        if row.lease_worker is not None:
            raise ActionRefused(
                f"{row} is {row.state}, but its process is still running (worker {row.lease_worker}); "
                "nothing changed. Try again when it has ended"
            )


def _refuse_pointless_retry(tx: Transaction, target: LockedStep, rows: list[LockedStep]) -> None:
    """A parent whose own code is done would fail again at once if none of its failed children is revived."""
    if target.own_code_done_at is None or target.child_block_uuid is None:
        return
    revived = {row.id for row in rows}
    children = reading.steps_of_block(tx, block=target.child_block_uuid)
    blocking = [child for child in children if _keeps_parent_from_completing(child)]
    if blocking and not any(child.id in revived for child in blocking):
        names = ", ".join(f"step {child.id} ({child.name})" for child in blocking[:5])
        raise ActionRefused(
            f"{target} would fail again at once: {names} "
            "was cancelled by hand. Retry or skip that first; nothing changed"
        )


def _revive(tx: Transaction, ids: set[int], actor: str, now: datetime) -> None:
    operator.revive(tx, ids=sorted(ids), actor=actor, reason=REVIVED, keep_plan=True, now=now)


def _revive_after_conclusion(tx: Transaction, before: LockedStep, skipped: set[int], actor: str, now: datetime) -> None:
    """A failure was resolved by hand: revive its successors, and the parent that failed because of it.

    `skipped` are the descendants that are skipped with it: their successors are revived, too.

    Not below an ancestor that ended for another reason; and a parent that other children keep from completing is not
    revived, unless one of its descendants is.
    """
    if before.state not in (*_RETRIABLE, State.NOT_RUNNABLE):
        return
    revived = _steps_to_revive(tx, set(), {before.id} | skipped)
    parent_id = before.parent_step_id
    if parent_id is not None and not _siblings_keep_parent_from_completing(tx, parent_id):
        revived |= _steps_to_revive(tx, set(), _ancestors_to_revive(tx, parent_id, revived) or set())
    revived -= {before.id} | skipped
    steps = operator.lock_for_revival(tx, ids=sorted(revived))
    _refuse_leased(steps)
    _revive(tx, revived, actor, now)
    operator.recheck_dependents(tx, ids=sorted(revived))


def _siblings_keep_parent_from_completing(tx: Transaction, parent_id: int) -> bool:
    children = reading.steps_of_block(tx, block=_lock(tx, parent_id).child_block_uuid)
    return any(_keeps_parent_from_completing(child) for child in children)


def _keeps_parent_from_completing(child: Step) -> bool:
    return child.type == "default" and child.state in (*_RETRIABLE, State.NOT_RUNNABLE)
