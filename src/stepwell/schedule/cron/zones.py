"""Time zones: found by name, and when their clocks change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from stepwell.model.errors import CronParseError
from stepwell.model.suggest import near

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)

# Those that exist have up to 32 characters.
_LONGEST_NAME: Final = 64

# They mean something else on each machine, or nothing.
_NOT_PORTABLE: Final = frozenset({"localtime", "posixrules", "Factory"})


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A moment at which the clocks of a zone are put forward or back."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def leaves(self) -> datetime:
        """The local time that is not reached by the old offset."""
        return local_time(self.at, self.before)

    @property
    def arrives(self) -> datetime:
        """The local time of the change by the new offset."""
        return local_time(self.at, self.after)


def find_zone(name: Any) -> ZoneInfo:
    """The zone of this name.

    >>> find_zone("Europe/Berln")
    Traceback (most recent call last):
    ...
    stepwell.model.errors.CronParseError: unknown time zone 'Europe/Berln'; did you mean Europe/Berlin?
    """
    try:
        if isinstance(name, str) and name not in _NOT_PORTABLE:
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    meant = _meant(name) if isinstance(name, str) and len(name) <= _LONGEST_NAME else None
    advice = f"did you mean {meant}?" if meant else "use a name of the IANA database, such as Europe/Berlin or UTC"
    raise CronParseError(f"unknown time zone {ascii(name)[:_LONGEST_NAME]}; {advice}")


def _meant(name: str) -> str | None:
    known = available_timezones() - _NOT_PORTABLE
    if "/" in name:
        return near(name, known)
    city = name.strip().replace(" ", "_").casefold()
    return next((zone for zone in sorted(known) if zone.casefold().rpartition("/")[2] == city), None)


def offset_at(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def local_time(moment: datetime, offset: timedelta) -> datetime:
    return moment.replace(tzinfo=None) + offset


def instant(local: datetime, offset: timedelta) -> datetime:
    return (local - offset).replace(tzinfo=UTC)


# Schedules use few zones, and mostly this year and the next.
@lru_cache(maxsize=4096)
def changes_in(zone: ZoneInfo, year: int) -> tuple[ClockChange, ...]:
    """The changes of a year (of UTC), in order.

    >>> [change.leaves.isoformat() for change in changes_in(ZoneInfo("Europe/Berlin"), 2026)]
    ['2026-03-29T02:00:00', '2026-10-25T03:00:00']
    """
    if year == MAXYEAR:  # its last day has no end that a datetime could be
        return ()
    found = []
    start = datetime(year, 1, 1, tzinfo=UTC)
    before = offset_at(start, zone)
    for _ in range(366):
        end = start + _DAY
        after = offset_at(end, zone)
        if after != before and start.year == year:
            found.append(ClockChange(_moment_of_change(start, end, zone, before), before, after))
        start, before = end, after
    return tuple(found)


def changes_near(day: date, zone: ZoneInfo) -> list[ClockChange]:
    """Those that may touch a local day: a day begins up to 14 hours before it does in UTC, and ends up to 12 after."""
    first, last = day - _DAY, day + _DAY
    years = {first.year, last.year}
    return [change for year in sorted(years) for change in changes_in(zone, year) if first <= change.at.date() <= last]


def _moment_of_change(start: datetime, end: datetime, zone: ZoneInfo, before: timedelta) -> datetime:
    while end - start > _SECOND:
        middle = start + (end - start) // 2
        middle -= timedelta(microseconds=middle.microsecond)
        start, end = (middle, end) if offset_at(middle, zone) == before else (start, middle)
    return end
