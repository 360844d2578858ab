"""Gates: steps that wait for an answer by a person or a program. They are Pending rows and take no slot."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any, Final

from stepwell.model import codec
from stepwell.model.actors import By, actor_of, reason_of, storable
from stepwell.model.decision import EXPIRES_AT, REFUSED_ANSWER
from stepwell.model.errors import ActionRefused, StepNotFound, UnstorableValue
from stepwell.model.states import State
from stepwell.store import Database, Transaction
from stepwell.store.audit import record_step_action
from stepwell.store.engine import gates, operator
from stepwell.store.engine.gates import DueGate, LockedGate
from stepwell.store.engine.operator import LockedStep
from stepwell.workflow.live.inputs import decode_plan
from stepwell.workflow.schemas import problems_of_value

_LOGGER: Final = logging.getLogger("stepwell.workflows")
OPEN: Final = "gate"  # its status on the agenda


class Gates:
    """Answers to the gates of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def answer(self, step_id: int, answer: Any, who: str, why: str | None = None) -> None:
        """Complete an open gate with its result. The first answer counts; a later one is refused."""
        actor, text = actor_of(who), codec.encode(answer, "answer")

        def work(tx: Transaction) -> None:
            gate = _locked(tx, step_id)
            now = self._database.now()
            _refuse_unless_open(tx, gate)
            if (expiry := expiry_of(gate)) is not None and expiry <= now:
                raise ActionRefused(
                    f"{_named(gate)} expired at {expiry:%Y-%m-%d %H:%M:%S}; nothing changed. Retry it to open it again"
                )
            check_answer(gate, codec.decode(text))
            gates.add_answer(tx, id=step_id, answer=text, answered_by=actor, reason=storable(why), now=now)
            operator.answer_gate(tx, id=step_id, response=text, actor=actor, reason=reason_of(why), now=now)
            record_step_action(tx, "answer", By(actor, why, now), step_id, gate.state, {})

        self._database.transact(work)


def refuse_closed_gate(tx: Transaction, step: LockedStep, result: Any) -> None:
    """A completion by hand is an answer, too; but an operator may also complete a gate that has expired."""
    if step.kind != "gate":
        return
    gate = _locked(tx, step.id)
    if gate.state in (State.PENDING, State.NOT_RUNNABLE, State.COMPLETED):
        _refuse_unless_open(tx, gate)
    check_answer(gate, result)


def _locked(tx: Transaction, step_id: int) -> LockedGate:
    gate = gates.lock_gate(tx, id=step_id)
    if gate is None:
        raise StepNotFound(f"step {step_id} does not exist")
    if gate.kind != "gate":
        raise ActionRefused(f"step {step_id} ({gate.label}) is not a gate; nothing changed")
    return gate


def _named(gate: LockedGate | DueGate) -> str:
    return f"gate {gate.template!r} (step {gate.id})"


def expiry_of(gate: LockedGate | DueGate) -> datetime | None:
    """When an open gate expires."""
    text = (gate.decision or {}).get(EXPIRES_AT)
    return None if text is None else datetime.fromisoformat(text)


def _refuse_unless_open(tx: Transaction, gate: LockedGate) -> None:
    given = gates.answer_of(tx, id=gate.id) if gate.state is State.PENDING and gate.status == OPEN else None
    by, at = (gate.actor, gate.completed_at) if given is None else (given.answered_by, given.answered_at)
    if given is not None or gate.state is State.COMPLETED:
        when = "" if at is None else f" at {at:%Y-%m-%d %H:%M:%S}"
        raise ActionRefused(f"{_named(gate)} was answered by {by}{when}; nothing changed")
    if gate.state is not State.PENDING:
        raise ActionRefused(f"{_named(gate)} is {gate.state} and takes no answer; nothing changed")
    if gate.status != OPEN:
        raise ActionRefused(f"{_named(gate)} is not open yet: it waits for other steps; nothing changed")


def check_answer(gate: LockedGate | DueGate, answer: Any) -> None:
    """Refuse an answer that does not match the schema that the workflow declares for it."""
    schema = decode_plan(gate.plan).result_schema if gate.plan else None
    if schema is not None and (found := problems_of_value(schema, answer, "answer")):
        raise ActionRefused(f"{_named(gate)}: {'; '.join(found)}; nothing changed")


def close_due_gates(tx: Transaction, group: str, actor: str, now: datetime) -> int:
    """Apply the answers that plain SQL has written, and fail the gates that have expired."""
    due = gates.due_gates(tx, group=group, now=now)
    for gate in due:
        expiry = expiry_of(gate)
        in_time = gate.answered_at is not None and (expiry is None or gate.answered_at < expiry)
        if gate.answered_by is not None and in_time:
            _apply_answer(tx, gate, gate.answered_by, now)
        else:
            message = "no answer in time" if expiry is None else f"no answer before {expiry:%Y-%m-%d %H:%M:%S} UTC"
            gates.expire_gate(tx, id=gate.id, message=message, actor=actor, now=now)
    return len(due)


def _apply_answer(tx: Transaction, gate: DueGate, answered_by: str, now: datetime) -> None:
    try:
        actor = actor_of(answered_by)
        given = codec.decode(gate.answer)
        answer = codec.encode(given, "answer")
        check_answer(gate, given)
    except (ActionRefused, UnstorableValue, ValueError) as error:
        _LOGGER.warning("an answer by %s is refused: %s", answered_by, error)
        refused = {
            "answered_by": codec.clean_text(answered_by, 200),
            "answered_at": None if gate.answered_at is None else gate.answered_at.isoformat(),
            "why": codec.clean_text(str(error), 1_000),
        }
        gates.record_refusal(tx, id=gate.id, decision=codec.encode({**gate.decision, REFUSED_ANSWER: refused}))
        gates.delete_answer(tx, id=gate.id)
        gates.postpone_gate(tx, id=gate.id, due_at=expiry_of(gate))
        return
    operator.answer_gate(tx, id=gate.id, response=answer, actor=actor, reason=reason_of(gate.reason), now=now)
