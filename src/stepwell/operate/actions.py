"""Operator actions, each in a transaction of its own and recorded there with who did it and why.

A retry also revives the steps that ended because of this one: descendants that a cascade ended, successors that became
NotRunnable, and ancestors that failed only because of their children.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from stepwell.define.drafts import NewStep
from stepwell.enqueue.create import Creator
from stepwell.model import codec
from stepwell.model.actors import By, actor_of, storable
from stepwell.model.errors import ActionRefused
from stepwell.model.step import Retried, StepRef
from stepwell.operate.step_actions import REVIVED, Done, StepActions
from stepwell.store import Database, Transaction
from stepwell.store.audit import record_step_action, record_with_parameters, record_workflow_action
from stepwell.store.engine import operator

T = TypeVar("T")


class Actions:
    def __init__(self, database: Database, creator: Creator) -> None:
        self._database = database
        self._creator = creator
        self.steps = StepActions()

    def enqueue(self, draft: NewStep, by: By) -> StepRef:
        """Create a step. One that exists under its idempotency key is returned, and nothing is recorded."""

        def work(tx: Transaction) -> StepRef:
            ref, is_new = self._creator.create_or_find(tx, draft, by.now)
            if is_new:
                record_with_parameters(tx, "enqueue", by, {"action": draft.action}, step_id=ref.id)
            return ref

        return self._database.transact(work)

    def cancel(self, step_id: int, who: str, why: str | None = None) -> None:
        """Cancel a step; the next ticks cancel its descendants."""
        self._act("cancel", self.steps.cancel, step_id, who, why)

    def fail(self, step_id: int, who: str, why: str | None = None) -> None:
        """End a step as Failed; the next ticks handle it like any other failure."""
        self._act("fail", self.steps.fail, step_id, who, why)

    def stop(self, step_id: int, who: str, why: str | None = None) -> None:
        """End a Running step as Stopped; the next ticks handle it like a step that stopped itself."""
        self._act("stop", self.steps.stop, step_id, who, why)

    def skip(self, step_id: int, who: str, why: str | None = None) -> None:
        """Conclude a step without running it; steps that could not run because of its failure are revived."""
        self._act("skip", self.steps.skip, step_id, who, why)

    def complete(self, step_id: int, who: str, why: str | None = None, response: Any = None) -> None:
        """Complete a step by hand, with a result; refused while it has children that are unfinished or never ran."""
        text = codec.encode(response, "result")
        self._act("complete", lambda tx, id, by: self.steps.complete(tx, id, by, text), step_id, who, why)

    def reset_attempts(self, step_id: int, who: str, why: str | None = None) -> None:
        """Reset the attempts of a Pending step and the delay after the last one; refused in any other state."""
        self._act("reset_attempts", self.steps.reset_attempts, step_id, who, why)

    def retry(self, step_id: int, who: str, why: str | None = None) -> Retried:
        """Retry a failed, stopped or cancelled step now, and revive what ended because of it, as it was planned."""

        def report(tx: Transaction, done: Done) -> Retried:
            revived = sorted([step_id, *done.also.get(REVIVED, ())])
            return Retried(revived, operator.handlers_that_ran(tx, ids=revived))

        return self._act_and(report, "retry", self.steps.retry, step_id, who, why)

    def _act(
        self, kind: str, act: Callable[[Transaction, int, By], Done], step_id: int, who: str, why: str | None
    ) -> None:
        self._act_and(lambda tx, done: None, kind, act, step_id, who, why)

    def _act_and(
        self,
        report: Callable[[Transaction, Done], T],
        kind: str,
        act: Callable[[Transaction, int, By], Done],
        step_id: int,
        who: str,
        why: str | None,
    ) -> T:
        by = By(actor_of(who), why, self._database.now())

        def work(tx: Transaction) -> T:
            done = act(tx, step_id, by)
            if done.changed:
                record_step_action(tx, kind, by, step_id, done.state, done.also)
            return report(tx, done)

        return self._database.transact(work)

    def pause_workflow(self, workflow: str, who: str, why: str | None = None) -> None:
        """Stop dispatching the Pending steps of one workflow; running steps continue. One that is paused stays so."""
        by = By(actor_of(who), why, self._database.now())

        def work(tx: Transaction) -> None:
            if pause_workflow(tx, workflow, by):
                record_workflow_action(tx, "pause_workflow", by, workflow, None, {})

        self._database.transact(work)

    def resume_workflow(self, workflow: str, who: str, why: str | None = None) -> None:
        by = By(actor_of(who), why, self._database.now())

        def work(tx: Transaction) -> None:
            resume_workflow(tx, workflow)
            record_workflow_action(tx, "resume_workflow", by, workflow, None, {})

        self._database.transact(work)


def pause_workflow(tx: Transaction, workflow: str, by: By) -> bool:
    """False: it is paused already, and nothing changed."""
    operator.lock_groups_of_workflow(tx, workflow=workflow)
    if not operator.pause_workflow(tx, workflow=workflow, actor=by.actor, reason=storable(by.why), now=by.now):
        return False
    operator.remove_workflow_from_agenda(tx, workflow=workflow)
    return True


def resume_workflow(tx: Transaction, workflow: str) -> None:
    if not operator.resume_workflow(tx, workflow=workflow):
        raise ActionRefused(f"workflow {workflow} is not paused; nothing changed")
    operator.mark_workflow(tx, workflow=workflow)
