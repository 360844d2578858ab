"""Slots found the slow way: every minute of real time is asked whether the expression fires then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import assume
from hypothesis import strategies as st

from stepwell.model.errors import CronParseError
from stepwell.schedule.cron import CronExpression

MINUTE = timedelta(minutes=1)
ZONES = [
    *("UTC", "America/New_York", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"),
    *("America/Nuuk", "Asia/Kolkata", "Pacific/Kiritimati", "Africa/Casablanca", "Asia/Beirut"),
]


def parsed(text: str, zone: str) -> CronExpression:
    try:
        return CronExpression.parse(text, zone=zone)
    except CronParseError as refused:
        assume("never fire" not in str(refused))
        raise


def minutes(after: datetime, until: datetime) -> Iterator[datetime]:
    moment = after.replace(second=0, microsecond=0) + MINUTE
    while moment <= until:
        yield moment
        moment += MINUTE


def expected_slots(expression: CronExpression, after: datetime, until: datetime) -> list[datetime]:
    """The rules once more, as a minute sees them: what does the clock show now, and what did it leave out?"""
    zone = ZoneInfo(expression.zone)
    found = []
    for moment in minutes(after, until):
        now = moment.astimezone(zone)
        shown = [now.replace(tzinfo=None)]
        if not expression.times.repeats:
            before = (moment - MINUTE).astimezone(zone).replace(tzinfo=None)
            if now.fold:
                shown = []
            else:
                left_out = before + MINUTE
                while left_out < now.replace(tzinfo=None):
                    shown.append(left_out)
                    left_out += MINUTE
        if any(_matches(expression, local) for local in shown):
            found.append(moment)
    return found


def _matches(expression: CronExpression, local: datetime) -> bool:
    fields = expression.fields
    return (
        local.minute in fields.minute.values
        and local.hour in fields.hour.values
        and local.month in fields.month.values
        and _matches_day(fields.day.plain, fields.day.values, fields.weekday.plain, fields.weekday.values, local.date())
    )


def _matches_day(day: str, days: tuple[int, ...], weekday: str, weekdays: tuple[int, ...], on: date) -> bool:
    """Plain days only: `L` and `#` have tables of their own."""
    by_day, by_weekday = on.day in days, on.isoweekday() % 7 in weekdays
    return (by_day and by_weekday) if "*" in (day[0], weekday[0]) else (by_day or by_weekday)


def _field(first: int, last: int, *, star: int = 2) -> st.SearchStrategy[str]:
    value = st.integers(first, last)
    span = st.tuples(value, value).map(lambda pair: f"{pair[0]}-{pair[1]}")
    item = st.one_of(value.map(str), span, st.tuples(span, st.integers(1, 7)).map(lambda pair: f"{pair[0]}/{pair[1]}"))
    listed = st.lists(item, min_size=1, max_size=3).map(",".join)
    step = st.integers(1, min(20, last - first + 1)).map(lambda step: f"*/{step}")
    return st.one_of(*[st.just("*")] * star, listed, step)


expressions = st.tuples(
    _field(0, 59, star=1), _field(0, 23), _field(1, 31, star=4), _field(1, 12, star=4), _field(0, 6, star=4)
).map(" ".join)

# Around the changes of all these zones in 2026, and on ordinary days.
moments = st.builds(
    lambda day, minute: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day, minutes=minute),
    st.one_of(
        st.sampled_from([38, 45, 65, 66, 79, 86, 87, 92, 93, 94, 247, 248, 274, 275, 295, 296, 303, 304]),
        st.integers(0, 364),
    ),
    st.integers(0, 1439),
)
