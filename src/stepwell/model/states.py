"""The nine states of a step and the one table of legal transitions.

Every change of state follows `TRANSITIONS`: the database rejects what it does not list (its triggers are generated from
it), the errors quote it and the tests enumerate it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """The state of a step.

    >>> State.FAILED.is_terminal, State.RUNNING.is_terminal
    (True, False)
    """

    PENDING = "Pending"
    DISPATCHED = "Dispatched"
    RUNNING = "Running"
    COMPLETED = "Completed"
    SKIPPED = "Skipped"
    FAILED = "Failed"
    STOPPED = "Stopped"
    CANCELLED = "Cancelled"
    NOT_RUNNABLE = "NotRunnable"

    @property
    def is_terminal(self) -> bool:
        return self not in UNFINISHED


UNFINISHED: Final = frozenset({State.PENDING, State.DISPATCHED, State.RUNNING})
CONCLUDED: Final = frozenset({State.COMPLETED, State.SKIPPED})
FAILED: Final = frozenset({State.FAILED, State.STOPPED})
RETRIABLE: Final = FAILED | {State.CANCELLED}  # by an operator; NotRunnable steps are revived with what stopped them
TERMINAL: Final = frozenset(State) - UNFINISHED
TROUBLE: Final = TERMINAL - CONCLUDED  # ended without having concluded: `steps_trouble`


class Mover(StrEnum):
    """Who may make a transition: the engine as well, or only an operator."""

    ANYONE = "anyone"
    OPERATOR = "operator"


_BY_THE_ENGINE: Final = {
    State.PENDING: {State.DISPATCHED, State.SKIPPED, State.CANCELLED, State.FAILED, State.NOT_RUNNABLE},
    State.DISPATCHED: {State.RUNNING, State.PENDING, State.SKIPPED, State.CANCELLED, State.FAILED},
    State.RUNNING: {
        State.COMPLETED,
        State.FAILED,
        State.STOPPED,
        State.SKIPPED,
        State.CANCELLED,
        State.PENDING,
    },
    State.NOT_RUNNABLE: {State.PENDING, State.SKIPPED, State.CANCELLED},
}

_BY_AN_OPERATOR: Final = {
    State.PENDING: {State.COMPLETED},
    State.FAILED: {State.PENDING, State.RUNNING, State.COMPLETED, State.SKIPPED},
    State.STOPPED: {State.PENDING, State.RUNNING, State.COMPLETED, State.SKIPPED},
    State.CANCELLED: {State.PENDING, State.RUNNING, State.COMPLETED, State.SKIPPED},
    State.NOT_RUNNABLE: {State.COMPLETED},
}

TRANSITIONS: Final[dict[tuple[State, State], Mover]] = {
    (origin, target): mover
    for mover, table in ((Mover.ANYONE, _BY_THE_ENGINE), (Mover.OPERATOR, _BY_AN_OPERATOR))
    for origin, targets in table.items()
    for target in sorted(targets)
}


def is_legal(origin: State, target: State, *, operator: bool = False) -> bool:
    """Whether a step may change from one state to the other.

    >>> is_legal(State.RUNNING, State.PENDING)
    True
    >>> is_legal(State.FAILED, State.PENDING), is_legal(State.FAILED, State.PENDING, operator=True)
    (False, True)
    """
    mover = TRANSITIONS.get((origin, target))
    return mover is Mover.ANYONE or (mover is Mover.OPERATOR and operator)
