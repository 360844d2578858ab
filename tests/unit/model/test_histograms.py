"""Buckets double from a millisecond on; percentiles stay within their bucket."""

from __future__ import annotations

import pytest

from stepwell.model.histograms import LAST, bounds_of, bucket_of, percentile


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 0.001, 0.00100001, 0.003, 0.5, 1.0, 59.9, 86_400.0, 1e8])
def test_a_duration_lies_within_the_bounds_of_its_bucket(seconds: float) -> None:
    low, high = bounds_of(bucket_of(seconds))
    assert low <= seconds <= high


def test_strange_durations_have_a_bucket() -> None:
    assert [bucket_of(value) for value in (-1.0, float("nan"), float("inf"))] == [0, 0, LAST]


def test_a_percentile_lies_in_the_bucket_that_it_falls_into() -> None:
    histogram = {1: 90, 8: 9, 12: 1}
    for share, bucket in ((0.5, 1), (0.9, 1), (0.95, 8), (0.99, 8), (1.0, 12)):
        found = percentile(histogram, share)
        assert found is not None
        low, high = bounds_of(bucket)
        assert low <= found <= high


def test_nothing_has_no_percentile() -> None:
    assert percentile({}, 0.5) is None
    assert percentile({3: 0}, 0.5) is None
