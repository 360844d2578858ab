"""The phases of a tick: those that change states, in order, then pick and dispatch."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from stepwell.dispatch.lock import Survey
from stepwell.model.states import FAILED, TERMINAL, TROUBLE, State
from stepwell.store import Change, Transaction
from stepwell.store.engine import agenda, phases, ticks
from stepwell.store.engine.ticks import Mark


@dataclass(frozen=True, slots=True)
class PhaseContext:
    """The group, the actor and the time with which a phase runs."""

    group: str
    actor: str
    now: datetime


def _yes_or_no(rows: int) -> str:
    return f"YES ({rows} rows)" if rows else "NO"


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase, as the log and the rows of ticks name it."""

    number: int
    name: str
    _: KW_ONLY
    changes: bool = True  # whether it counts rows that it changed, or steps that it only found
    outcome: Callable[[int], str] = _yes_or_no  # the count in the words of the log


@dataclass(frozen=True, slots=True)
class StatePhase(Phase):
    """A phase that changes states of steps; returns how many rows it changed."""

    has_work: Callable[[Survey], bool]  # whether it could find anything; skipped otherwise
    run: Callable[[Transaction, PhaseContext], int]


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """A phase that ran, or was skipped because it had no work."""

    phase: Phase
    count: int
    milliseconds: float

    @property
    def rows(self) -> int:
        """How many rows it changed."""
        return self.count if self.phase.changes else 0

    def as_progress(self) -> dict[str, Any]:
        """Its entry in the row of the tick."""
        entry = {"phase": self.phase.number, "name": self.phase.name, "rows": self.rows}
        return {**entry, **({} if self.phase.changes else {"found": self.count}), "ms": round(self.milliseconds, 2)}


class _OfGroup(Protocol):
    def __call__(self, tx: Transaction, /, *, group: str, actor: str, now: datetime) -> list[Change]: ...


class _OfParents(Protocol):
    def __call__(self, tx: Transaction, /, *, ids: list[int], actor: str, now: datetime) -> list[Change]: ...


def _running(*verbs: _OfGroup) -> Callable[[Transaction, PhaseContext], int]:
    def run(tx: Transaction, at: PhaseContext) -> int:
        return sum(len(verb(tx, group=at.group, actor=at.actor, now=at.now)) for verb in verbs)

    return run


def _promote(tx: Transaction, at: PhaseContext) -> int:
    """Handlers of failed blocks with their descendants, then the steps behind those, step by step."""
    latest = phases.promote_handlers(tx, group=at.group, actor=at.actor, now=at.now)
    promoted = len(latest)
    while latest:
        latest = phases.promote_successors(tx, ids=[change.step_id for change in latest], actor=at.actor, now=at.now)
        promoted += len(latest)
    return promoted


def _deciding_parents(verb: _OfParents) -> Callable[[Transaction, PhaseContext], int]:
    def run(tx: Transaction, at: PhaseContext) -> int:
        parents = phases.parents_to_decide(tx, group=at.group)
        return len(verb(tx, ids=parents, actor=at.actor, now=at.now)) if parents else 0

    return run


def _near(states: Set[State], *, or_unchecked: bool = False) -> Callable[[Survey], bool]:
    """For a phase that finds work only next to marked steps in these states (or next to unchecked steps)."""

    def has_work(survey: Survey) -> bool:
        return bool(states & survey.marked_states) or (or_unchecked and survey.unchecked)

    return has_work


_MAY_DECIDE_PARENT: Final = TERMINAL | {State.RUNNING}

STATE_PHASES: Final = (
    StatePhase(2, "skip_children", _near({State.SKIPPED}), _running(phases.skip_children)),
    StatePhase(3, "cascade_cancellations", _near({State.CANCELLED}), _running(phases.cancel_children)),
    StatePhase(
        4,
        "promote_handlers",
        _near(FAILED | {State.NOT_RUNNABLE, State.RUNNING}),
        _promote,
    ),
    StatePhase(5, "parents_to_failed", _near(_MAY_DECIDE_PARENT), _deciding_parents(phases.fail_parents)),
    StatePhase(
        6,
        "cascade_failures",
        _near(TROUBLE | {State.PENDING}, or_unchecked=True),
        _running(
            phases.fail_children,
            phases.mark_not_runnable_in_block,
            phases.mark_not_runnable_dependents,
            phases.mark_not_runnable_descendants,
        ),
    ),
    StatePhase(7, "parents_to_completed", _near(_MAY_DECIDE_PARENT), _deciding_parents(phases.complete_parents)),
    StatePhase(8, "exhausted_retries", lambda survey: survey.exhausted, _running(phases.fail_exhausted)),
)
PICK: Final = Phase(9, "pick", changes=False, outcome="Found {} steps".format)
DISPATCH: Final = Phase(10, "dispatch", outcome="Dispatched {} steps".format)


def process_marks(
    tx: Transaction, at: PhaseContext, marks: list[Mark], unchecked: bool = True, due: bool = True
) -> int:
    """Open the steps that the marked changes made ready, then delete the marks; returns how many steps were opened.

    Only the marks that every phase of this tick has seen are deleted: new ones may have been added meanwhile.
    `unchecked` and `due` say whether there may be steps that returned to Pending, and steps whose delay is over.
    """
    opened = 0
    if unchecked:
        opened += agenda.open_unchecked(tx, group=at.group, now=at.now)
        agenda.close_unchecked(tx, group=at.group)
    if due:
        opened += agenda.open_due(tx, group=at.group, now=at.now)
    if marks:
        opened += agenda.open_ready(tx, ids=agenda.steps_to_check(tx, group=at.group), now=at.now)
        ticks.delete_decided_marks(tx, marks, actor=at.actor)
    return opened


def pick(tx: Transaction, at: PhaseContext, limit: int, spare: int = 0) -> list[int]:
    """`PICK`: the ids of eligible steps for which their queues have room, high priority first, then the oldest.

    `spare` is 1 in some ticks: even where there is room for only a few steps, one place is then kept for the rest.
    """
    queues = ticks.lock_queues(tx, group=at.group)
    return ticks.pick(tx, group=at.group, now=at.now, limit=limit, spare=spare, queues=queues)


def dispatch(tx: Transaction, at: PhaseContext, ids: list[int], tick: int) -> int:
    """`DISPATCH`: Pending to Dispatched."""
    return len(ticks.dispatch_picked(tx, ids, group=at.group, actor=at.actor, tick=tick, now=at.now))
