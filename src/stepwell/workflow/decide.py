"""Decisions of a tick about ready steps of declared workflows: their condition, skipped inputs, the opening of gates.

Decided once, before a worker can claim the step, and recorded with the values that were found. In Python, because
values compare as typed JSON (`values.is_same`), which SQL does not do alike on both databases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from stepwell.model import codec
from stepwell.model.reasons import CONDITION_NOT_MET, INPUT_SKIPPED
from stepwell.model.states import State
from stepwell.store import Database, Transaction
from stepwell.store.engine import workflows
from stepwell.store.engine.workflows import UndecidedStep
from stepwell.workflow.gates import EXPIRES_AT, OPENED_AT, close_due_gates
from stepwell.workflow.inputs import decode_plan, sources_of
from stepwell.workflow.sources import Sources, load_sources
from stepwell.workflow.template import StepTemplate
from stepwell.workflow.values import is_met

BATCH: Final = 500  # steps per tick; the next tick follows at once


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` is why the step is skipped; None if it may run."""

    reason: str | None
    message: str | None
    found: dict[str, Any]


class Decisions:
    """What ticks decide for declared workflows."""

    def __init__(self, database: Database) -> None:
        database.hooks.in_tick(self.decide)

    def decide(self, tx: Transaction, group: str, actor: str, now: datetime) -> int:
        """Returns how many steps were decided, opened or ended."""
        changed = close_due_gates(tx, group, actor, now)
        changed += workflows.withdraw_undecided(tx, group=group)
        steps = workflows.undecided_steps(tx, group=group, limit=BATCH)
        plans = {step.id: decode_plan(step.plan) for step in steps}
        sources = load_sources(
            tx,
            {step.id: step.workflow_id for step in steps if step.undecided is not None},
            {id: sources_of(plan) for id, plan in plans.items()},
        )
        for step in steps:
            _decide(tx, step, plans[step.id], sources.get(step.id), actor, now)
        return changed + len(steps)


def _decide(
    tx: Transaction, step: UndecidedStep, plan: StepTemplate, sources: Sources | None, actor: str, now: datetime
) -> None:
    decision = Decision(None, None, {}) if sources is None else decision_of(plan, sources)  # None: decided earlier
    found = dict(decision.found)
    if decision.reason is not None:
        workflows.skip_undecided(
            tx,
            id=step.id,
            reason=decision.reason,
            message=decision.message,
            decision=codec.encode(found),
            actor=actor,
            now=now,
        )
        return
    if step.kind == "gate":
        expires = None if plan.expires is None else now + timedelta(seconds=plan.expires)
        found |= {OPENED_AT: now.isoformat(), EXPIRES_AT: expires and expires.isoformat()}
        workflows.record_decision(tx, id=step.id, decision=codec.encode(found), dispatch_after=None)
        workflows.open_gate(tx, id=step.id, due_at=expires)
        tx.touch(step.workflow_id, actor)
        return
    due_at = now + timedelta(seconds=plan.delay) if plan.delay and sources is not None else None
    workflows.record_decision(tx, id=step.id, decision=codec.encode(found) if found else None, dispatch_after=due_at)
    workflows.open_decided(tx, id=step.id, due_at=due_at)


def decision_of(plan: StepTemplate, sources: Sources) -> Decision:
    """Whether a step runs: first its condition counts, then its skipped inputs."""
    found: dict[str, Any] = {}
    for condition in plan.conditions:
        value = sources.value(condition.path)
        found[str(condition.path)] = {"wanted": list(condition.values), "found": value}
        if not is_met(condition, value):
            wanted = " or ".join(codec.encode(each) for each in condition.values)
            message = f"{condition.path} is {codec.encode(value)}, not {wanted}"
            return Decision(CONDITION_NOT_MET, codec.clean_text(message, 1_000), {"when": found})
    record = {"when": found} if found else {}
    for name in _skipped_inputs(plan, sources):
        message = f"its input {name!r} was skipped"
        return Decision(INPUT_SKIPPED, message, {**record, "skipped": name})
    return Decision(None, None, record)


def _skipped_inputs(plan: StepTemplate, sources: Sources) -> Iterator[str]:
    """The upstream steps that were skipped, and without whose result the step cannot run."""
    for step in plan.needed:
        if sources.state_of(step) is State.SKIPPED:
            yield step
