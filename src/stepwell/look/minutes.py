"""Throughput and latency per minute, from the minutes on record and what is not folded yet. No I/O."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Iterable
from datetime import datetime, timedelta

from stepwell.look.figure_types import Minute
from stepwell.look.tally import CREATED, RETURNED, RUN, STARTED, WAIT, MinuteKey
from stepwell.model.histograms import percentile
from stepwell.model.states import State


def series(sums: Iterable[tuple[MinuteKey, int]], first: datetime, last: datetime, action: str | None) -> list[Minute]:
    """One `Minute` for each minute from the first to the last, of all actions or of one."""
    found: dict[datetime, dict[str, Sums[int]]] = {}
    for (minute, of, kind, bucket), number in sums:
        if first <= minute <= last and action in (None, of):
            found.setdefault(minute, {}).setdefault(kind, Sums())[bucket] += number
    minutes = int((last - first) / timedelta(minutes=1)) + 1
    return [_minute(at := first + timedelta(minutes=place), found.get(at, {})) for place in range(minutes)]


def _minute(at: datetime, kinds: dict[str, Sums[int]]) -> Minute:
    def number(kind: str) -> int:
        return kinds[kind].total() if kind in kinds else 0

    wait, run = kinds.get(WAIT, Sums()), kinds.get(RUN, Sums())
    return Minute(
        at=at,
        created=number(CREATED),
        started=number(STARTED),
        returned=number(RETURNED),
        ended={str(state): number(state) for state in State if state.is_terminal},
        wait_p50=percentile(wait, 0.5),
        wait_p95=percentile(wait, 0.95),
        run_p50=percentile(run, 0.5),
        run_p95=percentile(run, 0.95),
    )
