"""A cron expression in plain English."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from stepwell.schedule.cron.fields import HOUR, MINUTE, Field
from stepwell.schedule.cron.syntax import Fields

# As many times of day as a line can list.
_LISTED: Final = 6

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_GROUPS: Final = {(1, 2, 3, 4, 5): "on weekdays", (0, 6): "on weekends"}
_NTH: Final = {"1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth"}


def describe(fields: Fields, zone: str) -> str:
    times, names_times = _times(fields.minute.values, fields.hour.values)
    dates = _dates(fields) or ("every day" if names_times else "")
    sentence = f"{times} {dates}".strip()
    return sentence if zone == "UTC" else f"{sentence}, {zone}"


def _times(minutes: Sequence[int], hours: Sequence[int]) -> tuple[str, bool]:
    """The times of day, and whether they are a list of times rather than something regular."""
    every_hour = len(hours) == HOUR.size
    step = _step(minutes, MINUTE.size)
    if len(minutes) * len(hours) <= _LISTED and not every_hour:
        return "at " + _join(f"{hour:02}:{minute:02}" for hour in hours for minute in minutes), True
    if step is not None and len(minutes) > 1:
        every = "every minute" if step == 1 else f"every {step} minutes"
        offset = f" from minute {minutes[0]} on" if minutes[0] else ""
        return f"{every}{offset}{_hours(hours, minutes[0], minutes[-1])}", False
    at = f"at minute{'s' * (len(minutes) > 1)} {_join(minutes)} of"
    if every_hour:
        return ("every hour" if tuple(minutes) == (0,) else f"{at} every hour"), False
    if (step := _step(hours, HOUR.size)) is not None:
        start = f" from {hours[0]:02}:00 on" if hours[0] else ""
        return (
            f"every {step} hours{start}" if tuple(minutes) == (0,) else f"every {step} hours{start}, {at[:-3]}"
        ), False
    if tuple(minutes) == (0,) and _is_range(hours):
        return f"every hour from {hours[0]:02}:00 to {hours[-1]:02}:00", False
    return f"{at} hour{'s' * (len(hours) > 1)} {_join(hours)}", False


def _hours(hours: Sequence[int], first: int, last: int) -> str:
    if len(hours) == HOUR.size:
        return ""
    if _is_range(hours):
        return f" from {hours[0]:02}:{first:02} to {hours[-1]:02}:{last:02}"
    return f" in hour{'s' * (len(hours) > 1)} {_join(hours)}"


def _dates(fields: Fields) -> str:
    months = "" if fields.month.plain == "*" else _join(_MONTHS[month - 1] for month in fields.month.values)
    days = "" if fields.day.plain == "*" else f"on {_days(fields.day)} of {months or 'the month'}"
    if fields.weekday.plain == "*":
        return days or (f"every day in {months}" if months else "")
    weekdays = _weekdays(fields.weekday) + (f" in {months}" if months else "")
    if not days:
        return weekdays
    if fields.day.plain.startswith("*") or fields.weekday.plain.startswith("*"):
        return f"{weekdays}, if it is {_days(fields.day, 'or')} of the month"
    return f"{days} or {weekdays}"


def _days(field: Field, conjunction: str = "and") -> str:
    names = [f"day {day}" if len(field.values) == 1 else str(day) for day in field.values]
    if len(names) > 1:
        names[0] = f"day{'s' * (conjunction == 'and')} {names[0]}"
    names += [
        {"L": "the last day", "LW": "the last weekday"}[item] for item in field.plain.split(",") if item[0] == "L"
    ]
    return _join(names, conjunction)


def _weekdays(field: Field) -> str:
    if field.plain.count("#") == field.plain.count("L") == 0 and field.values in _GROUPS:
        return _GROUPS[field.values]
    names = [_WEEKDAYS[day] for day in field.values]
    for item in field.plain.split(","):
        day, hash_, nth = item.partition("#")
        if hash_:
            names.append(f"the {_NTH[nth]} {_WEEKDAYS[int(day)]} of the month")
        elif item.endswith("L"):
            names.append(f"the last {_WEEKDAYS[int(item[:-1])]} of the month")
    return f"on {_join(names)}"


def _step(values: Sequence[int], size: int) -> int | None:
    """The distance between the values, if it is the same between all of them, over midnight or the full hour too."""
    steps = {later - earlier for earlier, later in pairwise([*values, values[0] + size])}
    return steps.pop() if len(steps) == 1 else None


def _is_range(values: Sequence[int]) -> bool:
    return len(values) > 1 and values[-1] - values[0] == len(values) - 1


def _join(items: Iterable[object], conjunction: str = "and") -> str:
    *rest, last = map(str, items)
    return f"{', '.join(rest)} {conjunction} {last}" if rest else last
