"""Waits and runs as histograms, minute by minute. No I/O."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Iterable
from datetime import datetime
from typing import Final, TypeAlias

from stepwell.model.histograms import bucket_of
from stepwell.store.engine.counters import MinuteRow, Times

MinuteKey: TypeAlias = tuple[datetime, str, str, int]  # minute, action, kind, bucket

# Kinds of `steps_minutes`, beside the terminal states.
CREATED: Final = "created"
RETURNED: Final = "returned"  # to Pending
STARTED: Final = "Running"
WAIT: Final = "wait"
RUN: Final = "run"


def histograms(rows: Iterable[Times | MinuteRow]) -> Sums[MinuteKey]:
    sums: Sums[MinuteKey] = Sums()
    for row in rows:
        for kind, text in ((WAIT, row.waits), (RUN, row.runs)):
            if text:
                for seconds in text.split(","):
                    sums[row.minute, row.action, kind, bucket_of(float(seconds))] += 1
    return sums
