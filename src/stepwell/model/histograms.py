"""Histograms of durations: buckets that double from a millisecond on, and percentiles of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SMALLEST: Final = 0.001  # the upper bound of the first bucket, in seconds
LAST: Final = 40  # 34 years


def bucket_of(seconds: float) -> int:
    """The bucket of a duration: 0 up to a millisecond, then each one twice as wide.

    >>> bucket_of(-1), bucket_of(0.001), bucket_of(0.0011), bucket_of(0.002), bucket_of(1e30)
    (0, 0, 1, 1, 40)
    """
    if not seconds > SMALLEST:
        return 0
    times = seconds / SMALLEST
    if times >= 1 << LAST:
        return LAST
    whole = int(times)
    return (whole - 1 if whole == times else whole).bit_length()


def bounds_of(bucket: int) -> tuple[float, float]:
    """The shortest and the longest duration of a bucket.

    >>> bounds_of(0), bounds_of(1)
    ((0.0, 0.001), (0.001, 0.002))
    """
    return (0.0, SMALLEST) if bucket == 0 else (SMALLEST * 2 ** (bucket - 1), SMALLEST * 2**bucket)


def percentile(histogram: Mapping[int, int], share: float) -> float | None:
    """The duration that this share of all does not exceed, evenly spread within a bucket; None without any.

    >>> percentile({0: 50, 4: 50}, 0.5), percentile({4: 1}, 0.95), percentile({}, 0.5)
    (0.001, 0.0156, None)
    """
    total = sum(histogram.values())
    if total <= 0:
        return None
    wanted, seen = share * total, 0
    for bucket in sorted(histogram):
        number = histogram[bucket]
        if number > 0 and seen + number >= wanted:
            low, high = bounds_of(bucket)
            return round(low + (high - low) * (wanted - seen) / number, 6)
        seen += number
    return bounds_of(max(histogram))[1]  # only by rounding
