"""Waits and runs as histograms, minute by minute. No I/O."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, TypeAlias

from stepwell.model.histograms import bucket_of
from stepwell.store.engine.counters import Times

MinuteKey: TypeAlias = tuple[datetime, str, str, int]  # minute, action, kind, bucket

# Kinds of `steps_minutes`, beside the terminal states.
CREATED: Final = "created"
RETURNED: Final = "returned"  # to Pending
STARTED: Final = "Running"
WAIT: Final = "wait"
RUN: Final = "run"


def histograms(rows: Iterable[Times]) -> Sums[MinuteKey]:
    sums: Sums[MinuteKey] = Sums()
    for row in rows:
        for kind, text in ((WAIT, row.waits), (RUN, row.runs)):
            if text:
                for bucket in buckets(text):
                    sums[row.minute, row.action, kind, bucket] += 1
    return sums


def buckets(text: str) -> Iterator[int]:
    """The buckets of durations in seconds with commas between them."""
    return (bucket_of(float(seconds)) for seconds in text.split(","))
