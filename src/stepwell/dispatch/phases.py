"""The phases of a tick that change states, in their order. Each returns how many rows it really changed."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from stepwell.model.states import FAILED, TERMINAL, State
from stepwell.store import Transaction


@dataclass(frozen=True, slots=True)
class Moment:
    """Where and when a phase works, and on whose account."""

    group: str
    actor: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Phase:
    """One numbered phase and the statements behind it."""

    number: int
    name: str
    concerns: Set[State]  # it can only find work around marked steps that are in one of these states
    run: Callable[[Transaction, Moment], int]


def _running(*statements: str) -> Callable[[Transaction, Moment], int]:
    def run(tx: Transaction, at: Moment) -> int:
        return sum(tx.change(name, group=at.group, actor=at.actor, now=at.now) for name in statements)

    return run


def _deciding_parents(statement: str) -> Callable[[Transaction, Moment], int]:
    def run(tx: Transaction, at: Moment) -> int:
        parents = [row["id"] for row in tx.rows("parents_to_decide", group=at.group)]
        return tx.change(statement, ids=tx.array(parents), actor=at.actor, now=at.now) if parents else 0

    return run


_ENDED_BADLY: Final = FAILED | {State.CANCELLED, State.NOT_RUNNABLE}
_DECIDES_A_PARENT: Final = TERMINAL | {State.RUNNING}

STATE_PHASES: Final = (
    Phase(2, "skip_children", {State.SKIPPED}, _running("skip_children")),
    Phase(3, "cascade_cancellations", {State.CANCELLED}, _running("cancel_children")),
    Phase(4, "promote_handlers", FAILED | {State.NOT_RUNNABLE, State.RUNNING}, _running("promote_handlers")),
    Phase(5, "parents_to_failed", _DECIDES_A_PARENT, _deciding_parents("fail_parents")),
    Phase(
        6,
        "cascade_failures",
        _ENDED_BADLY | {State.PENDING},
        _running(
            "fail_children",
            "mark_not_runnable_in_block",
            "mark_not_runnable_dependents",
            "mark_not_runnable_descendants",
        ),
    ),
    Phase(7, "parents_to_completed", _DECIDES_A_PARENT, _deciding_parents("complete_parents")),
    Phase(8, "exhausted_retries", frozenset(), _running("fail_exhausted")),
)


def settle_marks(tx: Transaction, at: Moment, marks: list[int], unchecked: bool = True, due: bool = True) -> int:
    """Let in whoever the marked changes may have let in, then forget the marks; returns how many gates opened.

    Only the marks that every phase of this tick has seen are forgotten: others may have come meanwhile. `unchecked`
    and `due` tell whether there may be steps that came back to Pending, and steps whose delay is over.
    """
    opened = 0
    if unchecked:
        opened += tx.change("open_unchecked", group=at.group, now=at.now)
        tx.change("close_unchecked", group=at.group)
    if due:
        opened += tx.change("open_due", group=at.group, now=at.now)
    if marks:
        gates = [row["id"] for row in tx.rows("steps_to_check", group=at.group)]
        opened += tx.change("open_ready", ids=tx.array(gates), now=at.now)
        tx.change("forget_marks", ids=tx.array(marks))
    return opened


def pick(tx: Transaction, at: Moment, limit: int, spare: int = 0) -> list[int]:
    """Phase 9: the ids of eligible steps that their queues have room for, the urgent and the oldest first.

    `spare` is 1 now and then: where there is room for few, the urgent leave one of it to the others.
    """
    queues = tx.array([row["name"] for row in tx.rows("lock_queues", group=at.group)])
    found = tx.rows("pick", group=at.group, now=at.now, limit=limit, spare=spare, queues=queues)
    return [row["step_id"] for row in found]


def dispatch(tx: Transaction, at: Moment, ids: list[int], tick: int) -> int:
    """Phase 10: Pending to Dispatched."""
    if not ids:
        return 0
    changed = tx.change("dispatch", ids=tx.array(ids), actor=at.actor, tick=tick, now=at.now)
    tx.change("note_selected", group=at.group, now=at.now)
    return changed
