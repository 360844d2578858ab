"""Operator actions on one step, in a transaction of the caller: what each would do, and doing it.

A plan changes nothing. It raises `ActionRefused` with the reason that the action itself would give, and returns the
steps that change with this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from stepwell.model import codec
from stepwell.model.actors import By
from stepwell.model.errors import ActionRefused
from stepwell.model.states import CONCLUDED, RETRIABLE, State, is_legal
from stepwell.operate.revival import (
    lock,
    refuse_leased,
    refuse_pointless_retry,
    refuse_unretriable,
    revivable_ancestors,
    revive_after_conclusion,
    revive_all,
    steps_revived_by_conclusion,
    steps_to_revive,
)
from stepwell.store import Change, Transaction
from stepwell.store.engine import operator
from stepwell.store.engine.operator import LockedStep

# What happens to the steps that change with another one.
REVIVED: Final = "revived"
SKIPPED: Final = "skipped"
CANCELLED: Final = "cancelled"
FAILED: Final = "failed"
Also: TypeAlias = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Done:
    """What an action did: the state of the step before it, and the steps that changed with it."""

    state: State
    also: Also
    changed: bool = True  # False: there was nothing to do


class _EndVerb(Protocol):
    def __call__(self, tx: Transaction, /, *, id: int, actor: str, reason: str, now: datetime) -> list[Change]: ...


# Called with a locked step before an operator skips it, or completes it with a result; raises `ActionRefused`.
SkipCheck: TypeAlias = Callable[[Transaction, LockedStep], None]
CompletionCheck: TypeAlias = Callable[[Transaction, LockedStep, Any], None]
# The steps that will be skipped because these are, by what they take from them.
InputSkips: TypeAlias = Callable[[Transaction, set[int]], set[int]]


class StepActions:
    def __init__(self) -> None:
        self.before_skip: list[SkipCheck] = []
        self.before_completion: list[CompletionCheck] = []
        self.skipped_by_input: list[InputSkips] = []

    # end ------------------------------------------------------------------------------------------------

    def plan_end(self, tx: Transaction, step: LockedStep, state: State, done: str) -> Also:
        if not is_legal(step.state, state, operator=True):
            raise _refusal(step, done)
        below = _below(tx, step)
        return {CANCELLED if state is State.CANCELLED else FAILED: below} if below else {}

    def cancel(self, tx: Transaction, step_id: int, by: By) -> Done:
        """The next ticks cancel its descendants."""
        return self._end(tx, operator.cancel_by_hand, "cancelled", step_id, by)

    def fail(self, tx: Transaction, step_id: int, by: By) -> Done:
        """The next ticks handle it like any other failure."""
        return self._end(tx, operator.fail_by_hand, "failed", step_id, by)

    def stop(self, tx: Transaction, step_id: int, by: By) -> Done:
        """The next ticks handle it like a step that stopped itself."""
        return self._end(tx, operator.stop_by_hand, "stopped", step_id, by)

    def _end(self, tx: Transaction, verb: _EndVerb, done: str, step_id: int, by: By) -> Done:
        """Running code is notified; its lease is held until its process has ended."""
        end = partial(verb, tx, id=step_id, actor=by.actor, reason=by.reason, now=by.now)
        changes = end()
        if not changes:
            # Another transaction may have changed its state since this statement began: the lock waits for that one.
            step = lock(tx, step_id)
            changes = end()
            if not changes:
                raise _refusal(step, done)
        return Done(changes[0].from_state or changes[0].to_state, {})

    # conclude -------------------------------------------------------------------------------------------

    def plan_skip(self, tx: Transaction, step: LockedStep) -> Also:
        """Also what the next ticks will skip: its descendants, and steps that take something from a skipped one."""
        self._refuse_skip(tx, step)
        below = _below(tx, step)
        gone = {step.id, *below}
        skipped = {each for look in self.skipped_by_input for each in look(tx, gone)} | set(below)
        revived = {each.id for each in steps_revived_by_conclusion(tx, step, set(below))} - skipped
        return _named({SKIPPED: skipped, REVIVED: revived})

    def skip(self, tx: Transaction, step_id: int, by: By) -> Done:
        """Conclude a step without running it; steps that could not run because of its failure are revived."""
        operator.lock_group_of(tx, id=step_id)
        before = lock(tx, step_id)
        self._refuse_skip(tx, before)
        revived = steps_revived_by_conclusion(tx, before, set(_below(tx, before)))
        if not operator.skip_by_hand(tx, id=step_id, actor=by.actor, reason=by.reason, now=by.now):
            raise _refusal(lock(tx, step_id), "skipped")
        revive_after_conclusion(tx, revived, by.actor, by.now)
        return Done(before.state, _named({REVIVED: {each.id for each in revived}}))

    def _refuse_skip(self, tx: Transaction, step: LockedStep) -> None:
        for check in self.before_skip:
            check(tx, step)
        if not is_legal(step.state, State.SKIPPED, operator=True):
            raise _refusal(step, "skipped")

    def plan_completion(self, tx: Transaction, step: LockedStep, response: Any) -> Also:
        self._refuse_completion(tx, step, response)
        return _named({REVIVED: {each.id for each in steps_revived_by_conclusion(tx, step, set())}})

    def complete(self, tx: Transaction, step_id: int, by: By, text: str) -> Done:
        """Complete a step with a result (`text` is its JSON), and revive what could not run because of its failure."""
        operator.lock_group_of(tx, id=step_id)
        before = lock(tx, step_id)
        self._refuse_completion(tx, before, codec.decode(text))
        revived = steps_revived_by_conclusion(tx, before, set())
        if not operator.complete_by_hand(tx, id=step_id, actor=by.actor, reason=by.reason, response=text, now=by.now):
            raise _refusal(lock(tx, step_id), "completed")
        revive_after_conclusion(tx, revived, by.actor, by.now)
        return Done(before.state, _named({REVIVED: {each.id for each in revived}}))

    def _refuse_completion(self, tx: Transaction, step: LockedStep, response: Any) -> None:
        for check in self.before_completion:
            check(tx, step, response)
        if step.state in (State.DISPATCHED, State.RUNNING):
            raise ActionRefused(f"{step} is {step.state}: cancel it or wait until it ends; nothing changed")
        if step.state in (State.COMPLETED, State.SKIPPED):
            raise _refusal(step, "completed")
        if operator.completable(tx, ids=[step.id]):
            return
        if step.kind == "gate" and not operator.has_open_children(tx, id=step.id):
            raise ActionRefused(f"{step} is not open yet: it waits for other steps; nothing changed")
        if step.state is State.NOT_RUNNABLE:
            raise ActionRefused(
                f"{step} is NotRunnable and has children that never ran: skip it, which skips them too, or "
                "retry or skip what it waits for; nothing changed"
            )
        raise ActionRefused(f"{step} has unfinished children: cancel them first; nothing changed")

    # retry ----------------------------------------------------------------------------------------------

    def plan_retry(self, tx: Transaction, step: LockedStep) -> list[LockedStep]:
        """All steps that are revived, with the step itself; they are locked."""
        refuse_unretriable(step)
        ancestors = revivable_ancestors(tx, step)
        revived = steps_to_revive(tx, {step.id}, {each.id for each in ancestors})
        steps = operator.lock_for_revival(tx, ids=sorted(revived))
        refuse_leased(steps)
        refuse_pointless_retry(tx, step, steps)
        return steps

    def retry(self, tx: Transaction, step_id: int, by: By) -> Done:
        operator.lock_group_of(tx, id=step_id)
        step = lock(tx, step_id)
        others = [each for each in self.plan_retry(tx, step) if each.id != step_id]
        revive_all(tx, others, by.actor, by.now)
        operator.revive(tx, ids=[step_id], actor=by.actor, reason=by.reason, keep_plan=False, now=by.now)
        operator.recheck_dependents(tx, ids=[step_id])
        return Done(step.state, _named({REVIVED: {each.id for each in others}}))

    def plan_reset(self, step: LockedStep) -> Also:
        if step.kind == "gate":
            raise ActionRefused(f"{step} is a gate, which makes no attempts: answer it; nothing changed")
        if step.state is State.PENDING:
            return {}
        if step.state in RETRIABLE:
            hint = "retry it, which resets them, too"
        elif step.state in CONCLUDED:
            hint = "it has concluded and makes no more attempts"
        elif step.state is State.NOT_RUNNABLE:
            hint = "it waits for a step that failed: retry that one"
        else:
            hint = "wait until it ends, or cancel it and retry it"
        raise ActionRefused(f"the attempts of {step} cannot be reset: it is {step.state}; {hint}; nothing changed")

    def reset_attempts(self, tx: Transaction, step_id: int, by: By) -> Done:
        """Reset the attempts of a Pending step, and the delay after the last one; it keeps a planned time."""
        step = lock(tx, step_id)
        self.plan_reset(step)
        operator.tally_reset(tx, id=step_id)
        changed = operator.reset_attempts(tx, id=step_id, now=by.now) > 0
        if changed:
            operator.recheck(tx, id=step_id)
        return Done(step.state, {}, changed)


def _below(tx: Transaction, step: LockedStep) -> list[int]:
    """The descendants that the next ticks end with it."""
    return [] if step.child_block_uuid is None else operator.members_to_skip(tx, id=step.id)


def _named(effects: dict[str, set[int]]) -> Also:
    return {effect: sorted(ids) for effect, ids in effects.items() if ids}


def _refusal(step: LockedStep, done: str) -> ActionRefused:
    return ActionRefused(f"{step} is {step.state} and cannot be {done}; nothing changed")
