"""What becomes of a local time on the day on which the clocks change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from stepwell.schedule.cron.zones import ClockChange, changes_near, instant

if TYPE_CHECKING:
    from stepwell.schedule.cron.expression import CronExpression

Clock: TypeAlias = Literal["normal", "skipped", "repeated"]


@dataclass(frozen=True, slots=True)
class LocalTime:
    """A time as the clock of the zone shows it, and when the expression fires because of it.

    `clock` is `skipped` (the clock does not show this time), `repeated` (it shows it twice) or `normal`; `nominal` says
    whether the fields of the expression match it. `fires_at` has the slots that it leads to: none, one, or two where
    the expression continues in real time.
    """

    local: datetime
    clock: Clock
    nominal: bool
    fires_at: tuple[datetime, ...]
    text: str


def explain_time(expression: CronExpression, local_time: datetime) -> LocalTime:
    """Explain a local time of the expression's zone: a naive datetime, whose seconds are dropped.

    >>> from stepwell.schedule.cron import CronExpression
    >>> nightly = CronExpression.parse("30 2 * * *", zone="Europe/Berlin")
    >>> print(explain_time(nightly, datetime(2026, 3, 29, 2, 30)).text)
    02:30 does not exist on 2026-03-29 in Europe/Berlin: the clocks go from 02:00 to 03:00; it fires once, at 03:00
    """
    local = local_time.replace(second=0, microsecond=0, tzinfo=None, fold=0)
    nominal = _names(expression, local)
    change = _change_at(expression, local)
    if change is None:
        moment = local.replace(tzinfo=expression.zone_info).astimezone(UTC)
        return LocalTime(local, "normal", nominal, (moment,) if nominal else (), _normal(expression, local, nominal))
    if change.leaves < change.arrives:
        clock: Clock = "skipped"
        slots = [] if expression.times.repeats else [change.at]
    else:
        clock = "repeated"
        both = [instant(local, change.before), instant(local, change.after)]
        slots = both if expression.times.repeats else both[:1]
    return LocalTime(
        local, clock, nominal, tuple(slots) if nominal else (), _around(expression, local, nominal, change)
    )


def _names(expression: CronExpression, local: datetime) -> bool:
    """Whether the fields match this local time, whatever the clocks do."""
    time_of_day = timedelta(hours=local.hour, minutes=local.minute)
    return time_of_day in expression.times.of_day and next(expression.dates(local.date()), None) == local.date()


def _change_at(expression: CronExpression, local: datetime) -> ClockChange | None:
    for change in changes_near(local.date(), expression.zone_info):
        first, last = sorted((change.leaves, change.arrives))
        if first <= local < last:
            return change
    return None


def _normal(expression: CronExpression, local: datetime, nominal: bool) -> str:
    verdict = "is" if nominal else "is not"
    return f"{local:%H:%M} on {local:%Y-%m-%d} in {expression.zone} {verdict} a time of {expression.text!r}"


def _around(expression: CronExpression, local: datetime, nominal: bool, change: ClockChange) -> str:
    exists = "does not exist" if change.leaves < change.arrives else "exists twice"
    story = (
        f"{local:%H:%M} {exists} on {local:%Y-%m-%d} in {expression.zone}: "
        f"the clocks go from {change.leaves:%H:%M} to {change.arrives:%H:%M}"
    )
    if not nominal:
        return f"{story}; it is not a time of {expression.text!r}"
    if change.leaves < change.arrives:
        if expression.times.repeats:
            return f"{story}; {expression.text!r} follows the clock, so there is no slot"
        return f"{story}; it fires once, at {change.arrives:%H:%M}"
    if expression.times.repeats:
        return f"{story}; {expression.text!r} follows the clock, so it fires both times"
    return f"{story}; it fires once, the first time"
