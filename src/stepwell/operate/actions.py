"""What an operator can do to a step: end it in any way, and bring it back. Each is on record with who and why.

A retry brings back what went with the step: below it what a cascade ended, behind it what could not run, above it
the ancestors that failed only through their children.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from stepwell.model import codec
from stepwell.model.actors import actor_of, reason_of, storable
from stepwell.model.errors import ActionRefused, StepNotFound
from stepwell.model.reasons import CHILDREN_FAILED, DORMANT, REVIVED
from stepwell.model.states import UNFINISHED, State
from stepwell.model.step import Step
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
        """Cancel a step; the next ticks cancel everything below it."""
        self._end(operator.cancel_by_hand, "cancelled", step_id, who, why)

    def fail(self, step_id: int, who: str, why: str | None = None) -> None:
        """End a step as Failed; the next ticks do what they do about any failure."""
        self._end(operator.fail_by_hand, "failed", step_id, who, why)

    def stop(self, step_id: int, who: str, why: str | None = None) -> None:
        """End a Running step as Stopped; the next ticks do what they do about any that a guard has stopped."""
        self._end(operator.stop_by_hand, "stopped", step_id, who, why)

    def _end(self, verb: _EndVerb, done: str, step_id: int, who: str, why: str | None) -> None:
        """What runs is told, and its lease stands until it has let go."""
        actor, now = actor_of(who), self._database.now()

        def work(tx: Transaction) -> None:
            if not verb(tx, id=step_id, actor=actor, reason=reason_of(why), now=now):
                raise _refusal(tx, step_id, done)

        self._database.transact(work)

    def skip(self, step_id: int, who: str, why: str | None = None) -> None:
        """Conclude a step without running it; what stood behind its failure may run again."""
        actor, now = actor_of(who), self._database.now()

        def work(tx: Transaction) -> None:
            operator.lock_group_of(tx, id=step_id)
            before = _lock(tx, step_id)
            if not operator.skip_by_hand(tx, id=step_id, actor=actor, reason=reason_of(why), now=now):
                raise _refusal(tx, step_id, "skipped")
            _revive_after_conclusion(tx, before, actor, now)

        self._database.transact(work)

    def complete(self, step_id: int, who: str, why: str | None = None, response: Any = None) -> None:
        """Resolve a step by hand, with a result; refused while a child of it is unfinished."""
        actor, now = actor_of(who), self._database.now()
        text = codec.encode(response, "response")

        def work(tx: Transaction) -> None:
            operator.lock_group_of(tx, id=step_id)
            before = _lock(tx, step_id)
            reason = reason_of(why)
            if not operator.complete_by_hand(tx, id=step_id, actor=actor, reason=reason, response=text, now=now):
                if before.state in (State.DISPATCHED, State.RUNNING):
                    raise ActionRefused(f"{before} is {before.state}; cancel it or let it end first")
                if before.state in (State.COMPLETED, State.SKIPPED):
                    raise _refusal(tx, step_id, "completed")
                raise ActionRefused(f"{before} has unfinished children; they would be orphaned: cancel them first")
            _revive_after_conclusion(tx, before, actor, now)

        self._database.transact(work)

    def retry(self, step_id: int, who: str, why: str | None = None) -> list[int]:
        """Bring a failed, stopped or cancelled step back with all that went with it; returns every step revived."""
        actor, now = actor_of(who), self._database.now()

        def work(tx: Transaction) -> list[int]:
            operator.lock_group_of(tx, id=step_id)
            target = _lock(tx, step_id)
            _refuse_unretriable(target)
            ancestors = _revivable_ancestors(tx, target)
            revived = _steps_to_revive(tx, {step_id}, {step.id for step in ancestors})
            steps = operator.lock_for_revival(tx, ids=sorted(revived))
            _refuse_leased(steps)
            _refuse_pointless_retry(tx, target, steps)
            operator.revive(tx, ids=sorted(revived - {step_id}), actor=actor, reason=REVIVED, now=now)
            operator.revive(tx, ids=[step_id], actor=actor, reason=reason_of(why), now=now)
            operator.recheck_dependents(tx, ids=sorted(revived))
            for step in steps:
                if step.type == "resolve-exception" and step.id != step_id:
                    operator.make_dormant_again(tx, id=step.id, actor=actor, now=now)
            return sorted(revived)

        return self._database.transact(work)

    def pause_workflow(self, workflow: str, who: str, why: str | None = None) -> None:
        """Keep the Pending steps of one workflow from being dispatched; what runs goes on."""
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
        raise StepNotFound(f"there is no step {step_id}")
    return found[0]


def _refusal(tx: Transaction, step_id: int, done: str) -> ActionRefused:
    row = _lock(tx, step_id)
    return ActionRefused(f"{row} is {row.state} and cannot be {done}; nothing changed")


def _refuse_unretriable(target: LockedStep) -> None:
    state = target.state
    if state in _RETRIABLE:
        return
    if state is State.NOT_RUNNABLE and target.reason == DORMANT:
        hint = "it is an exception handler that waits for a failure of its block"
    elif state is State.NOT_RUNNABLE:
        hint = "it stands behind a step that failed: retry that one, and this one comes back with it"
    elif state in UNFINISHED:
        hint = "it has not ended"
    else:
        hint = "it has concluded"
    raise ActionRefused(f"{target} is {state} and cannot be retried: {hint}; nothing changed")


def _revivable_ancestors(tx: Transaction, target: LockedStep) -> list[LockedStep]:
    """The ancestors that failed only through their children; refuses below one that ended otherwise."""
    found: list[LockedStep] = []
    row = target
    while row.parent_step_id is not None:
        row = _lock(tx, row.parent_step_id)
        state = row.state
        if state in UNFINISHED:
            break
        if state is not State.FAILED or row.reason != CHILDREN_FAILED:
            raise ActionRefused(
                f"{target} cannot be retried below {row}, which ended otherwise "
                f"({state}, {row.reason or 'no reason'}): retry that one; nothing changed"
            )
        found.append(row)
    return found


def _steps_to_revive(tx: Transaction, whole: set[int], raised: set[int]) -> set[int]:
    """All that comes back, transitively, with steps that do: with `whole` ones also what is below them.

    What stands behind may be below other ancestors. If these failed only through their children they are raised, too;
    if one ended otherwise, the step stays where it is: nothing can run below an ended parent.
    """
    waiting: dict[int | None, set[int]] = {}  # what stands behind, by its parents
    new = whole | raised
    while new:
        for found_behind in operator.revivable_behind(tx, ids=sorted(new)):
            waiting.setdefault(found_behind.parent_step_id, set()).add(found_behind.id)
        found, lifted = set(operator.revivable_below(tx, ids=sorted(new & whole))), set[int]()
        for parent_id in list(waiting):
            chain = _ancestors_to_revive(tx, parent_id, whole | raised | found)
            if chain is not None:
                lifted |= chain
                found |= waiting.pop(parent_id)
        new = (found | lifted) - whole - (raised - found)
        whole |= found
        raised |= lifted
    return whole | raised


def _ancestors_to_revive(tx: Transaction, step_id: int | None, raised: set[int]) -> set[int] | None:
    """The steps from here up that failed only through their children; None if one ended otherwise."""
    chain: set[int] = set()
    while step_id is not None and step_id not in raised:
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
                f"{row} is {row.state}, but its process has not let go yet (worker {row.lease_worker}); "
                "nothing changed: try again when it has ended"
            )


def _refuse_pointless_retry(tx: Transaction, target: LockedStep, rows: list[LockedStep]) -> None:
    """A parent whose own code is done, with nothing below it to run again, would fail again at once."""
    if target.own_code_done_at is None or target.child_block_uuid is None:
        return
    revived = {row.id for row in rows}
    children = reading.steps_of_block(tx, block=target.child_block_uuid)
    stuck = [child for child in children if _keeps_parent_from_completing(child)]
    if stuck and not any(child.id in revived for child in stuck):
        raise ActionRefused(
            f"{target} would fail again at once: {', '.join(f'step {child.id} ({child.name})' for child in stuck[:5])} "
            "was cancelled by hand; retry or skip that first; nothing changed"
        )


def _revive_after_conclusion(tx: Transaction, before: LockedStep, actor: str, now: datetime) -> None:
    """A failure was resolved by hand: what stood behind it may run, and a parent that failed through it goes on.

    Not below an ancestor that ended for another reason; and a parent that other children keep from completing stays as
    it is, unless something below it comes back.
    """
    if before.state not in (*_RETRIABLE, State.NOT_RUNNABLE):
        return
    revived = _steps_to_revive(tx, set(), {before.id})
    parent_id = before.parent_step_id
    if parent_id is not None and not _siblings_keep_parent_from_completing(tx, parent_id):
        revived |= _steps_to_revive(tx, set(), _ancestors_to_revive(tx, parent_id, revived) or set())
    revived.discard(before.id)
    steps = operator.lock_for_revival(tx, ids=sorted(revived))
    _refuse_leased(steps)
    operator.revive(tx, ids=sorted(revived), actor=actor, reason=REVIVED, now=now)
    operator.recheck_dependents(tx, ids=sorted(revived))


def _siblings_keep_parent_from_completing(tx: Transaction, parent_id: int) -> bool:
    children = reading.steps_of_block(tx, block=_lock(tx, parent_id).child_block_uuid)
    return any(_keeps_parent_from_completing(child) for child in children)


def _keeps_parent_from_completing(child: Step) -> bool:
    return child.type == "default" and child.state in (*_RETRIABLE, State.NOT_RUNNABLE)
