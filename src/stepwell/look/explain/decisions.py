"""What steps of declared workflows wait for beside other steps: a decision of the next tick, the answer to a gate."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from stepwell.look.explain.facts import Facts
from stepwell.look.explain.found import Found, cause, later
from stepwell.look.explain.result import Obstacle
from stepwell.model.decision import EXPIRES_AT, OPENED_AT, REFUSED_ANSWER
from stepwell.model.states import State
from stepwell.store.engine.explaining import StepFacts


def decision(facts: Facts, step: StepFacts) -> Iterator[Found]:
    if step.status == "undecided":
        what = "opens this gate" if step.kind == "gate" else "decides whether it runs"
        yield cause("decision", f"the next tick checks its condition and its inputs, and {what}")
    if step.status == "gate":
        yield _open_gate(step, step.decision or {})
    elif step.kind == "gate" and step.state is State.PENDING:
        yield later(cause("gate", "a gate: once it is open, it waits for an answer", advice=[_answer(step)]))


def _open_gate(step: StepFacts, decision: dict[str, Any]) -> Found:
    opened, expires, refused = (decision.get(key) for key in (OPENED_AT, EXPIRES_AT, REFUSED_ANSWER))
    until = datetime.fromisoformat(expires) if expires else None
    message = "an open gate: waiting for an answer"
    message += f" since {datetime.fromisoformat(opened):%Y-%m-%d %H:%M:%S} UTC" if opened else ""
    message += f"; it expires at {until:%Y-%m-%d %H:%M:%S} UTC" if until else ""
    if refused:
        message += f". An answer by {refused['answered_by']} was refused: {refused['why']}"
    return Found(Obstacle("gate", message, changes_at=until, advice=(_answer(step),)), is_removed_then=False)


def _answer(step: StepFacts) -> str:
    return f"stepwell workflows answer {step.workflow_id} {step.label} JSON"
