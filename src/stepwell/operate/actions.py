"""Operator actions on a step: end it in any state, or retry it. Each is recorded with who did it and why.

A retry also revives the steps that ended because of this one: descendants that a cascade ended, successors that became
NotRunnable, and ancestors that failed only because of their children.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from stepwell.model import codec
from stepwell.model.actors import actor_of, reason_of, storable
from stepwell.model.errors import ActionRefused
from stepwell.model.states import State
from stepwell.model.step import Retried
from stepwell.operate.revival import (
    lock,
    refuse_leased,
    refuse_pointless_retry,
    refuse_unretriable,
    revivable_ancestors,
    revive_after_conclusion,
    revive_all,
    steps_to_revive,
)
from stepwell.store import Change, Database, Transaction
from stepwell.store.engine import operator
from stepwell.store.engine.operator import LockedStep


class _EndVerb(Protocol):
    def __call__(self, tx: Transaction, /, *, id: int, actor: str, reason: str, now: datetime) -> list[Change]: ...


# Called with a locked step before an operator skips it, or completes it with a result; raises `ActionRefused`.
SkipCheck: TypeAlias = Callable[[Transaction, LockedStep], None]
CompletionCheck: TypeAlias = Callable[[Transaction, LockedStep, Any], None]


class Actions:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.before_skip: list[SkipCheck] = []
        self.before_completion: list[CompletionCheck] = []

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
            before = lock(tx, step_id)
            for check in self.before_skip:
                check(tx, before)
            skipped = set(operator.members_to_skip(tx, id=step_id))
            if not operator.skip_by_hand(tx, id=step_id, actor=actor, reason=reason_of(why), now=now):
                raise _refusal(tx, step_id, "skipped")
            revive_after_conclusion(tx, before, skipped, actor, now)

        self._database.transact(work)

    def complete(self, step_id: int, who: str, why: str | None = None, response: Any = None) -> None:
        """Complete a step by hand, with a result; refused while it has children that are unfinished or never ran."""
        actor, now = actor_of(who), self._database.now()
        text = codec.encode(response, "result")

        def work(tx: Transaction) -> None:
            operator.lock_group_of(tx, id=step_id)
            before = lock(tx, step_id)
            for check in self.before_completion:
                check(tx, before, codec.decode(text))
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
            revive_after_conclusion(tx, before, set(), actor, now)

        self._database.transact(work)

    def retry(self, step_id: int, who: str, why: str | None = None) -> Retried:
        """Retry a failed, stopped or cancelled step now, and revive what ended because of it, as it was planned."""
        actor, now = actor_of(who), self._database.now()

        def work(tx: Transaction) -> Retried:
            operator.lock_group_of(tx, id=step_id)
            target = lock(tx, step_id)
            refuse_unretriable(target)
            ancestors = revivable_ancestors(tx, target)
            revived = steps_to_revive(tx, {step_id}, {step.id for step in ancestors})
            steps = operator.lock_for_revival(tx, ids=sorted(revived))
            refuse_leased(steps)
            refuse_pointless_retry(tx, target, steps)
            revive_all(tx, [step for step in steps if step.id != step_id], actor, now)
            operator.revive(tx, ids=[step_id], actor=actor, reason=reason_of(why), keep_plan=False, now=now)
            operator.recheck_dependents(tx, ids=[step_id])
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


def _refusal(tx: Transaction, step_id: int, done: str) -> ActionRefused:
    row = lock(tx, step_id)
    return ActionRefused(f"{row} is {row.state} and cannot be {done}; nothing changed")
