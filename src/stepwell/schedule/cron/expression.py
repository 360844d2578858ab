"""A cron expression in a time zone, and the instants at which it fires."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from typing import Final, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim

from stepwell.model.errors import CronParseError
from stepwell.model.times import in_utc, problem_of_moment
from stepwell.schedule.cron.days import Times, slots_on, times_of
from stepwell.schedule.cron.describe import describe
from stepwell.schedule.cron.interval import closest_slots
from stepwell.schedule.cron.syntax import Fields, read
from stepwell.schedule.cron.zones import find_zone

_SECOND: Final = timedelta(seconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)

# As cronsim does: no date is rarer than that.
_GIVE_UP_YEARS: Final = 50
_ANY_MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A cron expression in a time zone. Made by `parse`; its slots are aware UTC datetimes, strictly increasing.

    >>> nightly = CronExpression.parse("30 2 * * MON-FRI", zone="Europe/Berlin")
    >>> nightly.describe()
    'at 02:30 on weekdays, Europe/Berlin'
    >>> print(nightly.after(datetime(2026, 3, 27, 12, tzinfo=UTC)))  # a Friday; the clocks change on Sunday
    2026-03-30 00:30:00+00:00
    """

    text: str
    zone: str
    seed: str
    fields: Fields = field(repr=False, compare=False)
    times: Times = field(repr=False, compare=False)
    zone_info: ZoneInfo = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, *, zone: str = "UTC", seed: str = "") -> Self:
        """Read an expression; the seed decides what `H` stands for.

        Raises `CronParseError`, with all that is wrong and what can be written instead.
        """
        zone_info = find_zone(zone)
        fields = read(text, seed)
        repeats = fields.minute.repeats or fields.hour.repeats
        times = times_of(fields.hour.values, fields.minute.values, repeats=repeats)
        parsed = cls(text.strip(), zone, seed, fields, times, zone_info)
        if parsed.after(_ANY_MOMENT) is None:
            raise CronParseError(
                f"cron expression {text!r}: it would never fire, because in {zone} its times are left out "
                "on each of its dates, when the clocks are put forward"
            )
        return parsed

    def after(self, moment: datetime) -> datetime | None:
        """The first slot after this moment, which need not be one itself. None if there is none in 50 years."""
        return next(self._slots_after(_checked(moment)), None)

    def slots(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The slots after a moment, up to and including another.

        >>> hourly = CronExpression.parse("@hourly")
        >>> midnight = datetime(2026, 1, 1, tzinfo=UTC)
        >>> [slot.hour for slot in hourly.slots(midnight, midnight + timedelta(hours=3))]
        [1, 2, 3]
        """
        until = _checked(until)
        for slot in self._slots_after(_checked(after)):
            if slot > until:
                return
            yield slot

    def latest(self, until: datetime, *, after: datetime | None = None) -> datetime | None:
        """The newest slot up to and including a moment, but later than `after`. None if there is none in 50 years."""
        until = _checked(until)
        after = None if after is None else _checked(after)
        for day in self._days(until, reverse=True):
            slots = slots_on(day, self.times, self.zone_info)
            if count := bisect_right(slots, until):
                found = slots[count - 1]
                return found if after is None or found > after else None
            if after is not None and slots and slots[0] <= after:
                return None
        return None

    def is_slot(self, moment: datetime) -> bool:
        """Whether the expression fires at exactly this moment."""
        return self.after(moment - _MICROSECOND) == moment

    def count(self, after: datetime, until: datetime) -> int:
        """How many slots there are after a moment, up to and including another: by days, not slot by slot.

        >>> every_minute = CronExpression.parse("* * * * *", zone="Europe/Berlin")
        >>> every_minute.count(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)) == 365 * 24 * 60
        True
        """
        until = _checked(until)
        total = 0
        for slots, first in self._days_after(_checked(after)):
            if slots[first] > until:
                break
            last = len(slots) if slots[-1] <= until else bisect_right(slots, until)
            total += last - first
        return total

    def shortest_interval(self) -> timedelta:
        """The least time between any two slots, whichever pair of dates or change of the clocks it occurs at.

        When 02:59 does not exist, it fires at 03:00:

        >>> CronExpression.parse("59 1,2 * * *", zone="America/New_York").shortest_interval()
        datetime.timedelta(seconds=60)
        """
        first, second = closest_slots(self)
        return second - first

    def describe(self) -> str:
        """The expression in plain English.

        >>> CronExpression.parse("*/5 * * * *").describe()
        'every 5 minutes'
        """
        return describe(self.fields, self.zone)

    def dates(self, start: date) -> Iterator[date]:
        """The dates on which it fires, beginning with this one."""
        return _dates(self.fields.dates, start, reverse=False)

    def _slots_after(self, moment: datetime) -> Iterator[datetime]:
        for slots, first in self._days_after(moment):
            yield from (slots[index] for index in range(first, len(slots)))

    def _days_after(self, moment: datetime) -> Iterator[tuple[Sequence[datetime], int]]:
        """The slots of each day that has any after the moment, and the index of the first that is new.

        A time that does not exist at the end of a day fires at midnight: perhaps with the first slot of the next day.
        """
        last = moment
        for day in self._days(moment, reverse=False):
            slots = slots_on(day, self.times, self.zone_info)
            if not slots or slots[-1] <= last:
                if day.year > last.year + _GIVE_UP_YEARS:
                    return
                continue
            yield slots, 0 if slots[0] > last else bisect_right(slots, last)
            last = slots[-1]

    def _days(self, moment: datetime, *, reverse: bool) -> Iterator[date]:
        return _dates(self.fields.dates, moment.astimezone(self.zone_info).date(), reverse=reverse)


def _dates(expression: str, start: date, *, reverse: bool) -> Iterator[date]:
    """Matching dates from a date on, itself included. cronsim sees no time zone: it only knows the calendar."""
    midnight = datetime.combine(start, time())
    try:
        for found in CronSim(expression, midnight + (_SECOND if reverse else -_SECOND), reverse=reverse):
            if found.year == MAXYEAR:
                return
            yield found.date()
    except OverflowError:  # before the first year
        return


def _checked(moment: datetime) -> datetime:
    if (problem := problem_of_moment(moment)) is not None:
        raise ValueError(f"the moment {problem}")
    return in_utc(moment)
