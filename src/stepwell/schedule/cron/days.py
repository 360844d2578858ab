"""The slots of one local day: its times of day as instants.

Two rules, as in Debian's cron. If the minute or the hour is a star or steps through all values (`repeats`), the
expression follows the clock: what the clock shows twice fires twice, what it does not show does not fire, and so "every
5 minutes" continues in real time. Any other expression names times, and each fires once a day: one that does not exist
fires at the moment of the change, one that exists twice fires the first time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import overload
from zoneinfo import ZoneInfo

from stepwell.schedule.cron.zones import ClockChange, changes_near, instant, offset_at


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """The times of day of an expression, in order, as time since midnight. Made by `times_of`, compared by identity."""

    of_day: tuple[timedelta, ...]
    repeats: bool


# Expressions with the same hours and minutes share them: `* * * * *` has 1,440.
@lru_cache(maxsize=512)
def times_of(hours: tuple[int, ...], minutes: tuple[int, ...], *, repeats: bool) -> Times:
    return Times(tuple(timedelta(hours=hour, minutes=minute) for hour in hours for minute in minutes), repeats)


class OrdinaryDay(Sequence[datetime]):
    """The slots of a day without a change, made one by one: most callers look at two or three of up to 1,440."""

    __slots__ = ("_midnight", "_times")

    def __init__(self, midnight: datetime, times: tuple[timedelta, ...]) -> None:
        self._midnight = midnight
        self._times = times

    def __len__(self) -> int:
        return len(self._times)

    @overload
    def __getitem__(self, index: int) -> datetime: ...
    @overload
    def __getitem__(self, index: slice) -> list[datetime]: ...
    def __getitem__(self, index: int | slice) -> datetime | list[datetime]:
        if isinstance(index, slice):
            return [self._midnight + of_day for of_day in self._times[index]]
        return self._midnight + self._times[index]


def slots_on(day: date, times: Times, zone: ZoneInfo) -> Sequence[datetime]:
    """The slots that belong to a local day, strictly increasing."""
    midnight = datetime.combine(day, time())
    changes = changes_near(day, zone)
    if not changes:
        noon = instant(midnight, timedelta(hours=-12))
        return OrdinaryDay(instant(midnight, offset_at(noon, zone)), times.of_day)
    return _slots_on_day_of_change(day, times, zone)


# On such a day, every schedule of the zone asks again and again.
@lru_cache(maxsize=512)
def _slots_on_day_of_change(day: date, times: Times, zone: ZoneInfo) -> Sequence[datetime]:
    return _distinct(_slots_around(changes_near(day, zone), datetime.combine(day, time()), times))


def _slots_around(changes: Sequence[ClockChange], midnight: datetime, times: Times) -> Iterable[datetime]:
    def between(first: datetime, last: datetime) -> list[datetime]:
        low = bisect_left(times.of_day, first - midnight)
        high = bisect_left(times.of_day, last - midnight)
        return [midnight + of_day for of_day in times.of_day[low:high]]

    reached = midnight
    for change in changes:
        yield from (instant(local, change.before) for local in between(reached, change.leaves))
        if times.repeats:
            reached = change.arrives
        else:
            if between(max(reached, change.leaves), change.arrives):
                yield change.at
            reached = max(reached, change.leaves, change.arrives)
    yield from (instant(local, changes[-1].after) for local in between(reached, midnight + timedelta(days=1)))


def _distinct(slots: Iterable[datetime]) -> tuple[datetime, ...]:
    found: list[datetime] = []
    for slot in slots:
        if not found or slot > found[-1]:
            found.append(slot)
    return tuple(found)
