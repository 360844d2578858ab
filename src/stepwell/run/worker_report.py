"""What a worker has done, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from stepwell.model.states import State

# What a run left its step in, in other words: its own code is done.
_ENDS: Final = {State.RUNNING.value: "waiting for children", State.PENDING.value: "to run again"}


@dataclass(slots=True)
class WorkerReport:
    """Counted since the worker started.

    >>> str(WorkerReport(claimed=3, ended={"Failed": 1, "Completed": 1}, lost=1))
    '3 steps claimed (1 Completed, 1 Failed); 1 run lost its lease'
    >>> str(WorkerReport(claimed=2, ended={"Running": 1, "Pending": 1}))
    '2 steps claimed (1 to run again, 1 waiting for children)'
    """

    claimed: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    lost: int = 0

    def count(self, states: Sequence[State | None]) -> None:
        """Count the states that steps ended in; None: the lease was lost, and nothing was written."""
        for state in states:
            if state is None:
                self.lost += 1
            else:
                self.ended[state.value] = self.ended.get(state.value, 0) + 1

    def __str__(self) -> str:
        ends = ", ".join(f"{number} {_ENDS.get(state, state)}" for state, number in sorted(self.ended.items()))
        parts = [f"{_counted(self.claimed, 'step')} claimed{f' ({ends})' if ends else ''}"]
        if self.lost:
            parts.append(f"{_counted(self.lost, 'run')} lost {'its lease' if self.lost == 1 else 'their leases'}")
        return "; ".join(parts)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
