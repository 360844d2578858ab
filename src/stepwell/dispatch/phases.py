"""The phases of a tick that change states, in their order. Each gives how many rows it really changed."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from stepwell.dispatch.lock import Survey
from stepwell.model.states import FAILED, TERMINAL, State
from stepwell.store import Change, Transaction
from stepwell.store.engine import agenda, phases, ticks


@dataclass(frozen=True, slots=True)
class Moment:
    """Where and when a phase works, and who it acts as."""

    group: str
    actor: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Phase:
    """One numbered phase."""

    number: int
    name: str
    has_work: Callable[[Survey], bool]  # whether there is anything that it could find: it is not run in vain
    run: Callable[[Transaction, Moment], int]


class _OfGroup(Protocol):
    def __call__(self, tx: Transaction, /, *, group: str, actor: str, now: datetime) -> list[Change]: ...


class _OfParents(Protocol):
    def __call__(self, tx: Transaction, /, *, ids: list[int], actor: str, now: datetime) -> list[Change]: ...


def _running(*verbs: _OfGroup) -> Callable[[Transaction, Moment], int]:
    def run(tx: Transaction, at: Moment) -> int:
        return sum(len(verb(tx, group=at.group, actor=at.actor, now=at.now)) for verb in verbs)

    return run


def _deciding_parents(verb: _OfParents) -> Callable[[Transaction, Moment], int]:
    def run(tx: Transaction, at: Moment) -> int:
        parents = phases.parents_to_decide(tx, group=at.group)
        return len(verb(tx, ids=parents, actor=at.actor, now=at.now)) if parents else 0

    return run


def _around(states: Set[State], *, or_unchecked: bool = False) -> Callable[[Survey], bool]:
    """A phase that can find work only around marked steps in these states (or around unchecked ones)."""

    def has_work(survey: Survey) -> bool:
        return bool(states & survey.marked_states) or (or_unchecked and survey.unchecked)

    return has_work


_ENDED_BADLY: Final = FAILED | {State.CANCELLED, State.NOT_RUNNABLE}
_DECIDES_A_PARENT: Final = TERMINAL | {State.RUNNING}

STATE_PHASES: Final = (
    Phase(2, "skip_children", _around({State.SKIPPED}), _running(phases.skip_children)),
    Phase(3, "cascade_cancellations", _around({State.CANCELLED}), _running(phases.cancel_children)),
    Phase(
        4,
        "promote_handlers",
        _around(FAILED | {State.NOT_RUNNABLE, State.RUNNING}),
        _running(phases.promote_handlers),
    ),
    Phase(5, "parents_to_failed", _around(_DECIDES_A_PARENT), _deciding_parents(phases.fail_parents)),
    Phase(
        6,
        "cascade_failures",
        _around(_ENDED_BADLY | {State.PENDING}, or_unchecked=True),
        _running(
            phases.fail_children,
            phases.mark_not_runnable_in_block,
            phases.mark_not_runnable_dependents,
            phases.mark_not_runnable_descendants,
        ),
    ),
    Phase(7, "parents_to_completed", _around(_DECIDES_A_PARENT), _deciding_parents(phases.complete_parents)),
    Phase(8, "exhausted_retries", lambda survey: survey.exhausted, _running(phases.fail_exhausted)),
)


def process_marks(tx: Transaction, at: Moment, marks: list[int], unchecked: bool = True, due: bool = True) -> int:
    """Open the steps that the marked changes have made ready, then forget the marks; gives how many were opened.

    Only the marks that every phase of this tick has seen are forgotten: others may have come meanwhile. `unchecked`
    and `due` say whether there may be steps that came back to Pending, and steps whose delay is over.
    """
    opened = 0
    if unchecked:
        opened += agenda.open_unchecked(tx, group=at.group, now=at.now)
        agenda.close_unchecked(tx, group=at.group)
    if due:
        opened += agenda.open_due(tx, group=at.group, now=at.now)
    if marks:
        opened += agenda.open_ready(tx, ids=agenda.steps_to_check(tx, group=at.group), now=at.now)
        ticks.delete_marks(tx, ids=marks)
    return opened


def pick(tx: Transaction, at: Moment, limit: int, spare: int = 0) -> list[int]:
    """Phase 9: the ids of eligible steps that their queues have room for, high priority and the oldest first.

    `spare` is 1 now and then: where there is room for few, high priority leaves one of it to the others.
    """
    queues = ticks.lock_queues(tx, group=at.group)
    return ticks.pick(tx, group=at.group, now=at.now, limit=limit, spare=spare, queues=queues)


def dispatch(tx: Transaction, at: Moment, ids: list[int], tick: int) -> int:
    """Phase 10: Pending to Dispatched."""
    return len(ticks.dispatch_picked(tx, ids, group=at.group, actor=at.actor, tick=tick, now=at.now))
