"""croniter as a second opinion, and where the two disagree: docs/schedules.md has the same list with the reasons."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stepwell.model.errors import CronParseError
from stepwell.schedule.cron import CronExpression
from stepwell.schedule.cron.zones import changes_near
from tests.golden_slots import at
from tests.unit.schedule.oracle import ZONES, moments, parsed


def croniters(text: str, zone: str, after: datetime, until: datetime) -> list[datetime]:
    found = []
    iterator = croniter(text, after.astimezone(ZoneInfo(zone)), ret_type=datetime)
    while (slot := iterator.get_next(datetime).astimezone(UTC)) <= until:
        found.append(slot)
    return found


def _field(first: int, last: int) -> st.SearchStrategy[str]:
    """What both read alike: no `5-5`, no wrapped range with a step."""
    value = st.integers(first, last)
    span = st.tuples(value, value).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: f"{pair[0]}-{pair[1]}")
    step = st.integers(1, min(7, last - first)).map(lambda step: f"*/{step}")
    return st.one_of(
        st.just("*"), step, st.lists(st.one_of(value.map(str), span), min_size=1, max_size=3).map(",".join)
    )


def _days() -> st.SearchStrategy[tuple[str, str]]:
    """Days of the month or of the week, or lists of both: with a star and a step in one, AND and OR differ."""
    lists = st.tuples(st.integers(1, 28).map(str), st.integers(0, 6).map(str))
    return st.one_of(_field(1, 31).map(lambda day: (day, "*")), _field(0, 6).map(lambda day: ("*", day)), lists)


expressions = st.tuples(_field(0, 59), _field(0, 23), _days(), _field(1, 12)).map(
    lambda parts: f"{parts[0]} {parts[1]} {parts[2][0]} {parts[3]} {parts[2][1]}"
)


@settings(max_examples=60, deadline=None)
@given(expressions, st.sampled_from(ZONES), moments)
def test_both_agree_while_the_clocks_do_not_change(text: str, zone: str, after: datetime) -> None:
    until = after + timedelta(hours=26)
    days = (after + timedelta(days=day) for day in range(3))
    assume(not any(changes_near(day.date(), ZoneInfo(zone)) for day in days))
    expression = parsed(text, zone)
    assert list(islice(expression.slots(after, until), 200)) == croniters(text, zone, after, until)[:200]


def cronsims(text: str, zone: str, after: datetime, until: datetime) -> list[datetime]:
    slots = (slot.astimezone(UTC) for slot in CronSim(text, after.astimezone(ZoneInfo(zone))))
    return list(takewhile(until.__ge__, slots))


JANUARY = "01-01 00:00 to 01-31 12:00"
AUTUMN = "11-01 04:00 to 11-01 10:00"
SPRING = "03-08 05:00 to 03-08 10:00"


@pytest.mark.parametrize(
    ("text", "zone", "window", "ours", "theirs"),
    [
        # A fixed time in the repeated hour: croniter fires twice, at two instants that UNIQUE does not catch.
        ("30 1 * * *", "America/New_York", AUTUMN, "11-01 05:30", "11-01 05:30, 11-01 06:30"),
        # A step over an hour that does not exist: croniter adds a slot at the change, out of step with the clock.
        (
            "30 */2 * * *",
            "America/New_York",
            SPRING,
            "03-08 05:30, 03-08 08:30",
            "03-08 05:30, 03-08 07:00, 03-08 08:30",
        ),
        # A range of one value: croniter reads every value.
        ("0 0 * * 5-5", "UTC", "01-01 00:00 to 01-05 00:00", "01-02", "01-02, 01-03, 01-04, 01-05"),
        # A star with a step in one of the two fields of the day: both must match here; croniter: either.
        ("0 0 */15 * THU", "UTC", JANUARY, "", "01-08, 01-15, 01-16, 01-22, 01-29, 01-31"),
    ],
)
def test_croniter_disagrees(text: str, zone: str, window: str, ours: str, theirs: str) -> None:
    after, until = (at(moment) for moment in window.split(" to "))
    assert list(CronExpression.parse(text, zone=zone).slots(after, until)) == [
        at(slot) for slot in ours.split(", ") if slot
    ]
    assert croniters(text, zone, after, until) == [at(slot) for slot in theirs.split(", ")]


@pytest.mark.parametrize("text", ["*/90 * * * *", "*/5 * * * * *", "0 0 30 2 *"])
def test_croniter_accepts_what_is_refused_here(text: str) -> None:
    """A step that fires once an hour, seconds, and a date that does not exist."""
    assert croniter.is_valid(text)
    with pytest.raises(CronParseError):
        CronExpression.parse(text)


@pytest.mark.parametrize(
    ("text", "zone", "window", "ours", "theirs"),
    [
        # Started in the second 01:xx, it returns the first 01:30: an earlier instant.
        ("30 1 * * *", "America/New_York", "11-01 06:15 to 11-01 10:00", "", "11-01 05:30"),
        # A change by half an hour: it steps by whole hours and misses 02:00.
        ("0 */2 * * *", "Australia/Lord_Howe", "04-04 13:00 to 04-04 18:00", "04-04 15:30, 04-04 17:30", "04-04 17:30"),
        # A day that begins at 01:00: it returns a midnight that does not exist.
        ("0 */2 * * SUN", "America/Santiago", "09-06 02:00 to 09-06 06:00", "09-06 05:00", "09-06 04:00, 09-06 05:00"),
    ],
)
def test_cronsim_is_not_asked_about_zones(text: str, zone: str, window: str, ours: str, theirs: str) -> None:
    """Why it is asked for dates only (docs/decisions/0009-slots.md)."""
    after, until = (at(moment) for moment in window.split(" to "))
    assert list(CronExpression.parse(text, zone=zone).slots(after, until)) == [
        at(slot) for slot in ours.split(", ") if slot
    ]
    assert cronsims(text, zone, after, until) == [at(slot) for slot in theirs.split(", ")]
