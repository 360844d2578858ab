"""Slots, whichever way one asks for them, against those that are found the slow way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepwell.model.errors import CronIntervalTooShort
from stepwell.schedule.cron import CronExpression, check_interval
from tests.unit.schedule.oracle import ZONES, expected_slots, expressions, minutes, moments, parsed

zones = st.sampled_from(ZONES)
quick = settings(max_examples=150, deadline=None)


@quick
@given(expressions, zones, moments, st.integers(0, 3000))
@example("30 2 * * *", "Europe/Berlin", datetime(2026, 3, 28, 20, tzinfo=UTC), 1440)
@example("*/7 0-3 * * *", "Australia/Lord_Howe", datetime(2026, 4, 4, 10, tzinfo=UTC), 1440)
@example("0,30 0,23 * * *", "America/Nuuk", datetime(2026, 3, 28, 20, tzinfo=UTC), 1440)
def test_slots_are_those_found_the_slow_way(text: str, zone: str, after: datetime, length: int) -> None:
    expression, until = parsed(text, zone), after + timedelta(minutes=length)
    assert list(expression.slots(after, until)) == expected_slots(expression, after, until)


@quick
@given(expressions, zones, moments, st.integers(0, 5000))
def test_all_questions_agree(text: str, zone: str, after: datetime, length: int) -> None:
    expression, until = parsed(text, zone), after + timedelta(minutes=length)
    slots = list(expression.slots(after, until))
    assert all(earlier < later for earlier, later in pairwise(slots))
    assert expression.count(after, until) == len(slots)
    assert expression.latest(until, after=after) == (slots[-1] if slots else None)
    following = expression.after(after)
    assert following == slots[0] if slots else (following is None or following > until)
    newest = expression.latest(until)
    assert newest is not None
    assert newest == slots[-1] if slots else newest <= after
    for moment in slots[:3]:
        assert expression.is_slot(moment)
        assert not expression.is_slot(moment + timedelta(seconds=30))


@settings(max_examples=50, deadline=None)
@given(expressions, zones, moments)
def test_a_chain_of_after_finds_every_slot_once(text: str, zone: str, start: datetime) -> None:
    """As a scheduler asks: from slot to slot, through the repeated hour too."""
    expression, until = parsed(text, zone), start + timedelta(hours=6)
    found, moment = [], start
    while (slot := expression.after(moment)) is not None and slot <= until:
        assert slot > moment
        found.append(slot)
        moment = slot
    assert found == list(expression.slots(start, until))


@quick
@given(expressions, zones, st.integers(2026, 2030), st.integers(0, 8760), st.integers(0, 8760))
def test_no_two_slots_are_closer_than_the_shortest_interval(
    text: str, zone: str, year: int, hour: int, hours: int
) -> None:
    expression = parsed(text, zone)
    shortest = expression.shortest_interval()
    start = datetime(year, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
    slots = expression.slots(start, start + timedelta(hours=min(hours, 500)))
    assert all(later - earlier >= shortest for earlier, later in pairwise(slots))


@pytest.mark.parametrize(
    ("text", "zone", "seconds", "at"),
    [
        ("0,59 0,23 * * *", "UTC", 60, "2026-01-01 23:59+00:00 and at 2026-01-02 00:00+00:00"),
        ("*/7 * * * *", "UTC", 240, "2026-01-01 00:56+00:00 and at 2026-01-01 01:00+00:00"),
        ("0 0,23 * * *", "UTC", 3600, "2026-01-01 23:00+00:00 and at 2026-01-02 00:00+00:00"),
        # Only where two dates follow each other: the last of one month and the first of the next.
        ("0 0,23 1,L * *", "UTC", 3600, "2026-01-31 23:00+00:00 and at 2026-02-01 00:00+00:00"),
        # 02:59 does not exist on one night of the year, and fires at 03:00.
        ("59 1,2 * * *", "America/New_York", 60, "2026-03-08 01:59-05:00 and at 2026-03-08 03:00-04:00"),
        # The same on a date that is such a night only in some years.
        ("59 1,2 13 3 *", "America/New_York", 60, "2033-03-13 01:59-05:00 and at 2033-03-13 03:00-04:00"),
        # 01:58 is followed by 01:31 when the clocks go from 02:00 to 01:30.
        ("58,31 * * * *", "Australia/Lord_Howe", 180, "2026-04-05 01:58+11:00 and at 2026-04-05 01:31+10:30"),
    ],
)
def test_the_minimum_interval_holds_at_whichever_pair_of_slots(text: str, zone: str, seconds: int, at: str) -> None:
    expression = CronExpression.parse(text, zone=zone)
    assert expression.shortest_interval() == timedelta(seconds=seconds)
    check_interval(expression, timedelta(seconds=seconds))
    with pytest.raises(CronIntervalTooShort) as refused:
        check_interval(expression, timedelta(seconds=seconds + 1))
    assert f"fires twice within {seconds} s, at {at} ({zone})" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "zone", "interval"),
    [
        ("* * * * *", "Europe/Berlin", timedelta(minutes=1)),
        ("30 2 * * *", "UTC", timedelta(days=1)),
        ("30 4 * * *", "Europe/Berlin", timedelta(hours=23)),
        ("0 0 * * MON", "UTC", timedelta(days=7)),
        ("0 0 1 * *", "UTC", timedelta(days=28)),
        ("0 0 31 * *", "UTC", timedelta(days=31)),
        ("0 0 29 2 *", "UTC", timedelta(days=4 * 365 + 1)),
        ("0 12 * 3 7L", "Europe/Berlin", timedelta(days=52 * 7)),
    ],
)
def test_the_shortest_interval_is_exact(text: str, zone: str, interval: timedelta) -> None:
    assert CronExpression.parse(text, zone=zone).shortest_interval() == interval


def test_a_long_gap_is_counted_exactly() -> None:
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    assert CronExpression.parse("* * * * *", zone="Europe/Berlin").count(start, end) == (end - start) // timedelta(
        minutes=1
    )
    # Two slots an hour, in all hours but one on ten days, and in one more on ten others.
    assert CronExpression.parse("*/30 * * * *", zone="America/New_York").count(start, end) == 2 * (
        (end - start) // timedelta(hours=1)
    )
    assert CronExpression.parse("0 0 29 2 *").count(start, end) == 3


def test_no_slot_lies_between_the_minutes() -> None:
    day = datetime(2026, 7, 1, tzinfo=UTC)
    every_minute = CronExpression.parse("* * * * *", zone="Asia/Kolkata")
    assert list(every_minute.slots(day, day + timedelta(hours=2))) == list(minutes(day, day + timedelta(hours=2)))
