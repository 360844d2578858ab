"""Which cron expressions are read, as what, and which are refused with which words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from stepwell import StepwellError
from stepwell.model.errors import CronParseError
from stepwell.schedule.cron import CronExpression
from stepwell.schedule.cron.fields import DAY, HOUR, KINDS, MINUTE, MONTH, WEEKDAY, Kind
from stepwell.schedule.cron.syntax import ALIASES, MAX_LENGTH

START = datetime(2026, 1, 1, tzinfo=UTC)
NEVER = datetime(2400, 1, 1, tzinfo=UTC)


def slots(text: str, count: int = 3, **options: str) -> list[str]:
    found = islice(CronExpression.parse(text, **options).slots(START, NEVER), count)
    return [f"{slot:%m-%d %H:%M}" for slot in found]


@pytest.mark.parametrize(
    ("kind", "text", "values"),
    [
        (MINUTE, "*/20", (0, 20, 40)),
        (MINUTE, "5/20", (5, 25, 45)),
        (MINUTE, "10-20/5", (10, 15, 20)),
        (MINUTE, "1,1,3-4", (1, 3, 4)),
        (MINUTE, "7", (7,)),
        (MINUTE, "*/60", (0,)),
        (HOUR, "22-2", (0, 1, 2, 22, 23)),
        (HOUR, "22-2/2", (0, 2, 22)),
        (HOUR, "5-5", (5,)),
        (DAY, "30-2", (1, 2, 30, 31)),
        (MONTH, "NOV-FEB", (1, 2, 11, 12)),
        (MONTH, "1,JUL", (1, 7)),
        (WEEKDAY, "FRI-MON", (0, 1, 5, 6)),
        (WEEKDAY, "7", (0,)),
        (WEEKDAY, "5-7", (0, 5, 6)),
        (WEEKDAY, "7-2", (0, 1, 2)),
        (WEEKDAY, "0-7", (0, 1, 2, 3, 4, 5, 6)),
        (WEEKDAY, "*/2", (0, 2, 4, 6)),
        (WEEKDAY, "1/2", (1, 3, 5)),
    ],
)
def test_a_field_has_these_values(kind: Kind, text: str, values: tuple[int, ...]) -> None:
    assert kind.read(text, "").values == values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 L * *", ["01-31 00:00", "02-28 00:00", "03-31 00:00"]),
        ("0 0 LW * *", ["01-30 00:00", "02-27 00:00", "03-31 00:00"]),
        ("0 0 15,L * *", ["01-15 00:00", "01-31 00:00", "02-15 00:00"]),
        ("0 9 * * MON#2", ["01-12 09:00", "02-09 09:00", "03-09 09:00"]),
        ("0 9 * * 7#1", ["01-04 09:00", "02-01 09:00", "03-01 09:00"]),
        ("0 9 * * 5L", ["01-30 09:00", "02-27 09:00", "03-27 09:00"]),
        ("0 9 * * friL", ["01-30 09:00", "02-27 09:00", "03-27 09:00"]),
        ("0 0 ? * MON", ["01-05 00:00", "01-12 00:00", "01-19 00:00"]),
        ("0 0 1 * ?", ["02-01 00:00", "03-01 00:00", "04-01 00:00"]),
        ("30 22-1 * * *", ["01-01 00:30", "01-01 01:30", "01-01 22:30"]),
        ("0 12 * jan mon", ["01-05 12:00", "01-12 12:00", "01-19 12:00"]),
        # Both days of a month and days of the week: either, unless one begins with a star, as in Debian's cron.
        ("0 0 10 * MON", ["01-05 00:00", "01-10 00:00", "01-12 00:00"]),
        ("0 0 */10 * MON", ["05-11 00:00", "06-01 00:00", "08-31 00:00"]),
        ("0 0 29 2 *", ["02-29 00:00", "02-29 00:00", "02-29 00:00"]),
        ("  0\t0   1 1  * ", ["01-01 00:00", "01-01 00:00", "01-01 00:00"]),
    ],
)
def test_an_expression_has_these_slots(text: str, expected: list[str]) -> None:
    assert slots(text) == expected


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_what_it_stands_for(alias: str) -> None:
    assert slots(alias, 20) == slots(ALIASES[alias], 20) == slots(alias.upper(), 20)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty; write five fields: minute, hour, day of month, month, day of week"),
        (" \n ", "it is empty"),
        ("* * * *", "4 fields instead of 5"),
        ("soon", "1 field instead of 5"),
        ("0 0 12 * * ?", "seconds are not supported (nor years)"),
        ("0 0 12 * * ?", "without its first field it is '0 12 * * ?'"),
        ("*/10 * * * * *", "seconds are not supported"),
        ("0 0 12 * * ? 2026", "7 fields, but seconds are not supported (nor years)"),
        ("1, 2 * * * *", "a field cannot contain spaces; write lists as 1,2"),
        ("0 0 30 2 *", "no date has this day of month (30), month (2) and day of week (*): it would never fire"),
        ("0 0 31 4,6,9,11 *", "it would never fire"),
        ("0 0 */30 * MON#3", "it would never fire"),
        ("*/0 * * * *", "minute '*/0': a step of 0 never advances"),
        ("*/90 * * * *", "a step of 90 is larger than the 60 values of this field"),
        ("60 * * * *", "60 is out of range; valid values: 0 to 59"),
        ("0 24 * * *", "24 is out of range; valid values: 0 to 23"),
        ("0 0 0 * *", "0 is out of range; valid values: 1 to 31"),
        ("0 0 * * 8", "8 is out of range; valid values: 0 to 7 or SUN to SAT"),
        ("-1 * * * *", "cannot read '-1'"),
        ("٣ * * * *", "cannot read '٣'"),
        ("\0 * * * *", r"cannot read '\x00'"),
        ("1- * * * *", "cannot read '1-'"),
        ("*5 * * * *", "cannot read '*5'"),
        ("*/x * * * *", "the step 'X' is not a number"),
        ("1,,2 * * * *", "a list has an empty item"),
        ("? * * * *", "cannot read '?'"),
        ("0 0 * FEBR *", "unknown name 'FEBR'; did you mean FEB?"),
        ("0 0 * * MONDAY", "unknown name 'MONDAY'; did you mean MON?"),
        ("noon * * * *", "'NOON' is not a number"),
        ("0 0 L-3 * *", "L-3 is not supported"),
        ("0 0 15W * *", "15W is not supported"),
        ("0 0 * * L", "L needs a day here"),
        ("0 0 * * MON#6", "use #1 to #5"),
        ("0 0 1#2 * *", "# belongs in the day of week"),
        ("H(5) * * * *", "H(5) needs a range, as in H(0-59)"),
        ("H(0-99) * * * *", "99 is out of range"),
        ("@dayly", "did you mean @daily?"),
        ("@quux", "valid names: @yearly"),
        ("@reboot", "enqueue the job when your program starts"),
        ("@every 5m", "write the interval as a step, as in */5 * * * *"),
        ("99 99 99 99 99", "day of week '99': 99 is out of range"),
    ],
)
def test_what_cannot_be_used_is_refused_with_advice(text: str, says: str) -> None:
    with pytest.raises(CronParseError) as refused:
        CronExpression.parse(text)
    assert says in str(refused.value)
    assert isinstance(refused.value, StepwellError)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(CronParseError) as refused:
        CronExpression.parse("61 25 32 13 9")
    assert all(f"{kind.name} '" in str(refused.value) for kind in KINDS)


def test_a_huge_expression_is_refused_without_being_read_or_repeated() -> None:
    with pytest.raises(CronParseError, match="100000 characters; at most 256") as refused:
        CronExpression.parse("1," * 50_000)
    assert len(str(refused.value)) < 200
    long = f"{','.join(map(str, range(60)))} * * * *"
    assert len(long) < MAX_LENGTH
    assert CronExpression.parse(long).describe() == "every minute"


@pytest.mark.parametrize("value", [None, 5, ["* * * * *"], {"cron": "@daily"}])
def test_what_is_no_text_is_refused_with_a_word_about_yaml(value: object) -> None:
    with pytest.raises(CronParseError, match="in YAML it has to be quoted"):
        CronExpression.parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("zone", "says"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        ("PST", "use a name of the IANA database"),
        ("../../etc/passwd", "use a name of the IANA database"),
        ("localtime", "use a name of the IANA database"),
        ("Europe", "use a name of the IANA database"),
        ("", "unknown time zone ''"),
        ("\0", r"unknown time zone '\x00'"),
        ("X" * 10_000, "unknown time zone 'XXX"),
        (None, "unknown time zone None"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_one_that_was_meant(zone: str, says: str) -> None:
    with pytest.raises(CronParseError) as refused:
        CronExpression.parse("@daily", zone=zone)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 200


def test_h_depends_on_the_seed_and_on_nothing_else() -> None:
    # These are the times of schedules that exist: another hash would move them.
    assert CronExpression.parse("H H * * *", seed="reports").describe() == "at 01:58 every day"
    assert CronExpression.parse("H H * * *", seed="invoices").describe() == "at 16:13 every day"
    assert slots("H H H H *", seed="reports") == slots("h h h h *", seed="reports")


def test_h_stays_in_its_bounds_and_spreads() -> None:
    minutes, starts = set(), set()
    days: set[int] = set()
    for seed in map(str, range(500)):
        (minute,) = MINUTE.read("H", seed).values
        (late,) = MINUTE.read("H(30-39)", seed).values
        quarters = MINUTE.read("H/15", seed).values
        bounded = MINUTE.read("H(0-29)/10", seed).values
        (night,) = HOUR.read("H(22-3)", seed).values
        days.update(DAY.read("H", seed).values)
        assert 30 <= late <= 39
        assert [minute - quarters[0] for minute in quarters] == [0, 15, 30, 45]
        assert [minute - bounded[0] for minute in bounded] == [0, 10, 20]
        assert bounded[-1] < 30
        assert night in {22, 23, 0, 1, 2, 3}
        minutes.add(minute)
        starts.add(quarters[0])
    assert minutes == set(range(60))
    assert starts == set(range(15))
    assert days == set(range(1, 29))  # every month has them


def test_fields_of_one_seed_are_independent() -> None:
    pairs = {(MINUTE.read("H(0-22)", seed).values, HOUR.read("H(0-22)", seed).values) for seed in map(str, range(500))}
    assert len({minute == hour for minute, hour in pairs}) == 2


def test_an_expression_is_a_value() -> None:
    first, second = (CronExpression.parse("0 3 * * *", zone="Europe/Berlin", seed="a") for _ in range(2))
    assert first == second
    assert len({first, second, CronExpression.parse("0 3 * * *", zone="UTC", seed="a")}) == 2
    assert (first.text, first.zone, first.seed) == ("0 3 * * *", "Europe/Berlin", "a")
    with pytest.raises(AttributeError):
        first.text = "@daily"  # type: ignore[misc]


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        CronExpression.parse("@daily").after(datetime(2026, 1, 1))


def test_slots_end_where_time_does() -> None:
    last = datetime(9998, 12, 31, 23, 59, tzinfo=UTC)
    assert CronExpression.parse("0 0 29 2 *").after(last) is None
    assert CronExpression.parse("@yearly", zone="Europe/Berlin").latest(datetime(1001, 1, 1, tzinfo=UTC)) is not None
    assert CronExpression.parse("@daily").after(last - timedelta(days=1)) is not None


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("@hourly", "every hour"),
        ("0 */3 * * *", "every 3 hours"),
        ("15 */3 * * *", "every 3 hours, at minute 15"),
        ("0 1/2 * * *", "every 2 hours from 01:00 on"),
        ("5,20 * * * *", "at minutes 5 and 20 of every hour"),
        ("2/15 * * * *", "every 15 minutes from minute 2 on"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45 on weekdays"),
        ("*/20 8,20 * * *", "at 08:00, 08:20, 08:40, 20:00, 20:20 and 20:40 every day"),
        ("*/10 8,20 * * *", "every 10 minutes in hours 8 and 20"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("7,9 0-9 * * *", "at minutes 7 and 9 of hours 0, 1, 2, 3, 4, 5, 6, 7, 8 and 9"),
        ("@daily", "at 00:00 every day"),
        ("30 2 * * MON-FRI", "at 02:30 on weekdays"),
        ("0 9,18 * * SAT,SUN", "at 09:00 and 18:00 on weekends"),
        ("0 9 * * MON,WED", "at 09:00 on Monday and Wednesday"),
        ("0 9 * * MON#1,5L", "at 09:00 on the first Monday of the month and the last Friday of the month"),
        ("@monthly", "at 00:00 on day 1 of the month"),
        ("0 0 1,15,L * *", "at 00:00 on days 1, 15 and the last day of the month"),
        ("0 0 LW * *", "at 00:00 on the last weekday of the month"),
        ("@yearly", "at 00:00 on day 1 of January"),
        ("0 0 * 7,8 *", "at 00:00 every day in July and August"),
        ("0 0 13 * FRI", "at 00:00 on day 13 of the month or on Friday"),
        ("0 0 13 6 FRI", "at 00:00 on day 13 of June or on Friday in June"),
        ("0 0 */15 * FRI", "at 00:00 on Friday, if it is day 1, 16 or 31 of the month"),
    ],
)
def test_an_expression_is_described(text: str, description: str) -> None:
    assert CronExpression.parse(text).describe() == description
    assert CronExpression.parse(text, zone="Asia/Tokyo").describe() == f"{description}, Asia/Tokyo"
