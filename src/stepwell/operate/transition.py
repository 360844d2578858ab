"""Moving a step by hand to any state that the transition table lets an operator choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.model.errors import ActionRefused, IllegalTransition
from stepwell.model.states import State, is_legal
from stepwell.model.step import Step
from stepwell.operate.actions import Actions


def transition_by_hand(actions: Actions, step: Step, state: State, who: str, why: str | None) -> None:
    """Pending (or Running) is a retry, with all that returns with it; every other state has an action of its own."""
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
        raise IllegalTransition(f"step {step.id} is {step.state}: nobody moves it from there to {state} by hand")
    try:
        moves[state](step.id, who, why)
    except ActionRefused as refused:
        raise ActionRefused(f"from {step.state} to {state} by hand: {refused}") from None
