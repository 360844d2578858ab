"""Decisions of a tick about ready steps of declared workflows: their condition, skipped inputs, the opening of gates.

Decided once, before a worker can claim the step, and recorded with the values that were found. In Python, because
values compare as typed JSON (`values.is_same`), which SQL does not do alike on both databases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from stepwell.enqueue.set_aside import log_set_aside
from stepwell.model import codec
from stepwell.model.decision import EXPIRES_AT, OPENED_AT, SKIPPED_INPUT, WHEN
from stepwell.model.error_text import describe
from stepwell.model.features import WORKFLOW
from stepwell.model.reasons import CONDITION_NOT_MET, INPUT_SKIPPED
from stepwell.model.states import State
from stepwell.store import Database, Transaction
from stepwell.store.engine import claims, decisions, gates
from stepwell.store.engine.decisions import UndecidedStep
from stepwell.workflow.live.gates import close_due_gates
from stepwell.workflow.live.inputs import decode_plan, sources_of
from stepwell.workflow.live.sources import Sources, load_sources
from stepwell.workflow.template import StepTemplate
from stepwell.workflow.values import is_met

BATCH: Final = 500  # steps per tick; the next tick follows at once
# Of a value in the record of a decision. Fewer brackets than levels that JSON may have: the record adds some.
MAX_TEXT: Final = 1_000
MAX_BRACKETS: Final = codec.MAX_DEPTH - 10


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` is why the step is skipped; None if it may run."""

    reason: str | None
    message: str | None
    found: dict[str, Any]


class Decisions:
    """What ticks decide for declared workflows."""

    def __init__(self, database: Database) -> None:
        database.hooks.in_tick(WORKFLOW, self.decide)

    def decide(self, tx: Transaction, group: str, actor: str, now: datetime) -> int:
        """Returns how many steps were decided, opened or ended."""
        changed = close_due_gates(tx, group, actor, now)
        changed += decisions.withdraw_undecided(tx, group=group)
        found = decisions.undecided_steps(tx, group=group, limit=BATCH)
        plans = _readable_plans(tx, found, actor, now)
        steps = [step for step in found if step.id in plans]
        sources = load_sources(
            tx,
            {step.id: step.workflow_id for step in steps if step.undecided is not None},
            {id: sources_of(plan) for id, plan in plans.items()},
        )
        for step in steps:
            _decide(tx, step, plans[step.id], sources.get(step.id), actor, now)
        return changed + len(found)


def _readable_plans(
    tx: Transaction, steps: Sequence[UndecidedStep], actor: str, now: datetime
) -> dict[int, StepTemplate]:
    """The plans of the steps. Those that plain SQL has made unreadable are set aside: they hold up no others."""
    plans: dict[int, StepTemplate] = {}
    unreadable: list[tuple[int, str]] = []
    for step in steps:
        try:
            plans[step.id] = decode_plan(step.plan or "")
        except msgspec.DecodeError as error:
            unreadable.append((step.id, f"its plan is not that of a workflow's step: {describe(error)}"))
    for id, message in unreadable:
        claims.set_aside(tx, id=id, actor=actor, message=message, now=now)
    log_set_aside(tx, unreadable, actor, now)
    return plans


def _decide(
    tx: Transaction, step: UndecidedStep, plan: StepTemplate, sources: Sources | None, actor: str, now: datetime
) -> None:
    decision = _decided_earlier(step) if sources is None else decision_of(plan, sources)
    found = decision.found
    if decision.reason is not None:
        decisions.skip_undecided(
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
        found = found | {OPENED_AT: now.isoformat(), EXPIRES_AT: expires and expires.isoformat()}
        decisions.record_decision(tx, id=step.id, decision=codec.encode(found), dispatch_after=None)
        gates.delete_answer(tx, id=step.id)  # it was given before an operator's retry, and not applied
        gates.open_gate(tx, id=step.id, due_at=expires)
        tx.touch(WORKFLOW, step.workflow_id, actor)
        return
    due_at = now + timedelta(seconds=plan.delay) if plan.delay and sources is not None else None
    decisions.record_decision(tx, id=step.id, decision=codec.encode(found) if found else None, dispatch_after=due_at)
    decisions.open_decided(tx, id=step.id, due_at=due_at)


def _decided_earlier(step: UndecidedStep) -> Decision:
    """A gate that opens again: its condition is not looked at a second time."""
    kept = (step.decision or {}).get(WHEN)
    return Decision(None, None, {WHEN: kept} if kept else {})


def decision_of(plan: StepTemplate, sources: Sources) -> Decision:
    """Whether a step runs: first its condition counts, then its skipped inputs."""
    found: dict[str, Any] = {}
    for condition in plan.conditions:
        value = sources.value(condition.path)
        found[str(condition.path)] = {
            "wanted": [_recorded(each) for each in condition.values],
            "found": _recorded(value),
        }
        if not is_met(condition, value):
            wanted = " or ".join(map(_text, condition.values))
            message = f"{condition.path} is {_text(value)}, not {wanted}"
            return Decision(CONDITION_NOT_MET, codec.clean_text(message, MAX_TEXT), {WHEN: found})
    record = {WHEN: found} if found else {}
    for name in plan.needed:
        if sources.state_of(name) is State.SKIPPED:
            return Decision(INPUT_SKIPPED, f"its input {name!r} was skipped", {**record, SKIPPED_INPUT: name})
    return Decision(None, None, record)


def _recorded(value: Any) -> Any:
    """The value that was found; or the beginning of its text, if it is larger or deeper than a record may be."""
    if not isinstance(value, str | dict | list):
        return value
    text = _text(value)
    return text if len(text) >= MAX_TEXT or text.count("[") + text.count("{") > MAX_BRACKETS else value


def _text(value: Any) -> str:
    return codec.clean_text(msgspec.json.encode(value).decode(), MAX_TEXT)
