"""Adding up rows of the tally: what they change of the totals, and what happened in which minute. No I/O."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, TypeAlias

from stepwell.model.histograms import bucket_of
from stepwell.model.states import State
from stepwell.store.engine.counters import TallyRow
from stepwell.store.rows import from_text

TotalKey: TypeAlias = tuple[str, str, str, str, str, bool, bool]
MinuteKey: TypeAlias = tuple[datetime, str, str, int]

CREATED: Final = "created"
RETURNED: Final = "returned"  # to Pending
STARTED: Final = "Running"
WAIT: Final = "wait"
RUN: Final = "run"

_UNFINISHED: Final = frozenset({"Pending", "Dispatched", "Running"})
_ENDED: Final = frozenset(str(state) for state in State) - _UNFINISHED


def totals_from(rows: Iterable[TallyRow]) -> Sums[TotalKey]:
    """How much each total changes: `@counted` in Python."""
    sums: Sums[TotalKey] = Sums()
    for row in rows:
        if row.to_state is not None:
            sums[_key(row, row.to_state)] += row.number
        if row.from_state is not None:
            sums[_key(row, row.from_state)] -= row.number
    return sums


def _key(row: TallyRow, state: str) -> TotalKey:
    return (
        state,
        row.action,
        row.queue or "",
        (row.group or "") if state in _UNFINISHED else "",
        (row.hostname or "") if state == "Running" else "",
        row.child,
        row.is_throttled and state == "Pending",
    )


def minutes_from(rows: Iterable[TallyRow]) -> Sums[MinuteKey]:
    sums: Sums[MinuteKey] = Sums()
    for row in rows:
        if row.at is None:
            continue
        minute = row.at.replace(second=0, microsecond=0)
        if (kind := _kind(row.from_state, row.to_state)) is not None:
            sums[minute, row.action, kind, 0] += row.number
        for wait in _waits(row.waits, row.at):
            sums[minute, row.action, WAIT, bucket_of(wait)] += 1
        for run in _numbers(row.runs):
            sums[minute, row.action, RUN, bucket_of(run)] += 1
    return sums


def _kind(origin: str | None, target: str | None) -> str | None:
    """Under what a transition is counted; being dispatched is not an event of its own."""
    if target is None or origin == target:
        return None
    if target == "Pending":
        return CREATED if origin is None else RETURNED
    if target == "Running":
        return STARTED if origin in ("Pending", "Dispatched") else RETURNED
    return target if target in _ENDED else None


def _waits(value: Any, at: datetime) -> Iterator[float]:
    if isinstance(value, str):
        return ((at - from_text(moment)).total_seconds() for moment in value.split(","))
    return _numbers(value)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, str):
        return map(float, value.split(","))
    return (number for number in value or () if number is not None)
