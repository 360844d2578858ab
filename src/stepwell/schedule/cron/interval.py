"""The two slots of an expression that are closest to each other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from stepwell.model.errors import CronIntervalTooShort
from stepwell.schedule.cron.days import OrdinaryDay, slots_on
from stepwell.schedule.cron.zones import changes_in

if TYPE_CHECKING:
    from stepwell.schedule.cron.expression import CronExpression

_DAY: Final = timedelta(days=1)
# Fields have no seconds, and clocks are put forward and back by whole minutes: no two slots are closer.
_MINUTE: Final = timedelta(minutes=1)
_MICROSECOND: Final = timedelta(microseconds=1)

# After 28 years, dates and weekdays coincide as before, and so do changes of the clocks that go by weekday.
_YEARS: Final = range(2026, 2054)
_START: Final = date(_YEARS.start, 1, 1)
_END: Final = datetime(_YEARS.stop, 1, 1, tzinfo=UTC)

# Dates of which one is a day without a change of the clocks, unless all are such days.
_TRIES: Final = 8

_FIRST: Final = datetime(1001, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9998, 12, 31, tzinfo=UTC)

Pair: TypeAlias = tuple[datetime, datetime]


def check_interval(expression: CronExpression, minimum: timedelta) -> None:
    """Refuse an expression two of whose slots are closer together than the minimum.

    >>> from stepwell.schedule.cron import CronExpression
    >>> check_interval(CronExpression.parse("59 23 * * *"), timedelta(minutes=1))
    >>> check_interval(CronExpression.parse("0,59 0,23 * * *"), timedelta(minutes=5))
    Traceback (most recent call last):
    ...
    stepwell.model.errors.CronIntervalTooShort: cron expression '0,59 0,23 * * *' fires twice within 60 s,
        at 2026-01-01 23:59+00:00 and at 2026-01-02 00:00+00:00 (UTC); the minimum interval is 300 s
    """
    if minimum <= _MINUTE:
        return
    first, second = closest_slots(expression, below=minimum)
    if second - first >= minimum:
        return
    shown = [slot.astimezone(expression.zone_info).isoformat(" ", "minutes") for slot in (first, second)]
    raise CronIntervalTooShort(
        f"cron expression {expression.text!r} fires twice within {(second - first).total_seconds():g} s, "
        f"at {shown[0]} and at {shown[1]} ({expression.zone}); "
        f"the minimum interval is {minimum.total_seconds():g} s"
    )


def closest_slots(expression: CronExpression, *, below: timedelta = timedelta.max) -> Pair:
    """Two neighbouring slots with the shortest interval of all, by the calendar and by changes of the clocks.

    Intervals of `below` and more need not be found.
    """
    return min(_candidates(expression, below), key=_interval)


def _interval(pair: Pair) -> timedelta:
    return pair[1] - pair[0]


def _candidates(expression: CronExpression, below: timedelta) -> Iterator[Pair]:
    within_a_day = _on_an_ordinary_day(expression)
    yield within_a_day
    if _interval(within_a_day) == _MINUTE:
        return
    over_midnight = expression.times.of_day[0] + _DAY - expression.times.of_day[-1]
    if over_midnight < min(_interval(within_a_day), below):
        yield _on_two_days(expression, over_midnight)
    yield from _around_changes(expression)


def _on_an_ordinary_day(expression: CronExpression) -> Pair:
    """The closest slots of one day; with only one a day, a pair that any other is closer than."""
    days = [slots_on(day, expression.times, expression.zone_info) for day in islice(expression.dates(_START), _TRIES)]
    slots = next((day for day in days if isinstance(day, OrdinaryDay)), days[0])
    return min(pairwise(slots), key=_interval, default=(_FIRST, _LAST))


def _on_two_days(expression: CronExpression, shortest: timedelta) -> Pair:
    """The closest of the last slot of one day and the first of the next on which it fires."""
    closest = _FIRST, _LAST
    days = (slots_on(day, expression.times, expression.zone_info) for day in expression.dates(_START))
    for earlier, later in pairwise(day for day in days if day):
        if later[0] > earlier[-1]:  # else they are one slot: see `_days_after`
            closest = min(closest, (earlier[-1], later[0]), key=_interval)
        if _interval(closest) == shortest or later[0] > _END:
            break
    return closest


def _around_changes(expression: CronExpression) -> Iterator[Pair]:
    """The slots before and after each change of the clocks. All others follow each other as on any other day."""
    for year in _YEARS:
        for change in changes_in(expression.zone_info, year):
            before = change.at - _MICROSECOND
            found = [expression.latest(before), *islice(expression.slots(before, _LAST), 2)]
            yield from pairwise(slot for slot in found if slot is not None)
