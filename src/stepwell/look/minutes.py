"""Throughput and latency per minute, from the minutes on record and what is not folded yet. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from stepwell.look.figure_types import Minute
from stepwell.look.tally import CREATED, RETURNED, RUN, STARTED, WAIT, buckets
from stepwell.model.histograms import percentile
from stepwell.model.states import State
from stepwell.store.engine.counters import MinuteRow

Kinds: TypeAlias = dict[str, dict[int, int]]  # of one minute: by kind, how many in each bucket

_NONE: Final[Kinds] = {}
_ENDED: Final = tuple(str(state) for state in State if state.is_terminal)


def series(rows: Iterable[MinuteRow], first: datetime, last: datetime) -> list[Minute]:
    """One `Minute` for each minute from the first to the last."""
    found: dict[datetime, Kinds] = {}
    for row in rows:
        _add(row, found.setdefault(row.minute, {}))
    minutes = int((last - first) / timedelta(minutes=1)) + 1
    return [_minute(at := first + timedelta(minutes=place), found.get(at, _NONE)) for place in range(minutes)]


def _add(row: MinuteRow, kinds: Kinds) -> None:
    if row.numbers is not None:
        for each in row.numbers.split(","):
            kind, bucket, number = each.split(" ")
            of_kind, at = kinds.setdefault(kind, {}), int(bucket)
            of_kind[at] = of_kind.get(at, 0) + int(number)
    for kind, seconds in ((WAIT, row.waits), (RUN, row.runs)):
        if seconds:
            of_kind = kinds.setdefault(kind, {})
            for at in buckets(seconds):
                of_kind[at] = of_kind.get(at, 0) + 1


def _minute(at: datetime, kinds: Mapping[str, Mapping[int, int]]) -> Minute:
    numbers = {kind: sum(of_kind.values()) for kind, of_kind in kinds.items()}
    wait, run = kinds.get(WAIT, {}), kinds.get(RUN, {})
    return Minute(
        at=at,
        created=numbers.get(CREATED, 0),
        started=numbers.get(STARTED, 0),
        returned=numbers.get(RETURNED, 0),
        ended={state: numbers.get(state, 0) for state in _ENDED},
        wait_p50=percentile(wait, 0.5),
        wait_p95=percentile(wait, 0.95),
        run_p50=percentile(run, 0.5),
        run_p95=percentile(run, 0.95),
    )
