"""Moving a step by hand to any state that the transition table allows an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.model.errors import ActionRefused, IllegalTransition
from stepwell.model.states import State, is_legal
from stepwell.model.step import Step
from stepwell.operate.actions import Actions


def transition_by_hand(actions: Actions, step: Step, state: State, who: str, why: str | None) -> None:
    """Pending means a retry, with all the steps that it revives; Running as well, for a parent whose own code is done.

    Every other state has its own action.
    """
    moves: dict[State, Callable[..., Any]] = {
        State.PENDING: actions.retry,
        State.RUNNING: actions.retry,
        State.COMPLETED: actions.complete,
        State.SKIPPED: actions.skip,
        State.CANCELLED: actions.cancel,
        State.FAILED: actions.fail,
        State.STOPPED: actions.stop,
    }
    if state not in moves or not is_legal(step.state, state, operator=True):
        raise IllegalTransition(
            f"step {step.id} is {step.state} and cannot be moved to {state} by hand; nothing changed"
        )
    if state is State.RUNNING and step.own_code_done_at is None:
        raise IllegalTransition(
            f"step {step.id} is {step.state} and cannot be moved to Running by hand, because its own code is not done: "
            "move it to Pending, and a worker runs it; nothing changed"
        )
    try:
        moves[state](step.id, who, why)
    except ActionRefused as refused:
        raise ActionRefused(f"cannot move from {step.state} to {state} by hand: {refused}") from None
