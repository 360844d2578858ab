"""Times passed in by users: converted to what Python and both databases can represent, or described as a problem."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, Final

MAX_SECONDS: Final = 100 * 365.25 * 86_400

_DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SECONDS_OF: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1, "ms": 0.001}
_DURATION: Final = re.compile("".join(rf"(?: *([0-9]+(?:\.[0-9]+)?) ?{unit})?" for unit in _SECONDS_OF))


def problem_of_moment(moment: Any) -> str | None:
    """What is wrong with a point in time, phrased to follow its name; None if nothing.

    >>> problem_of_moment(datetime(2026, 1, 1, tzinfo=UTC)), problem_of_moment("tomorrow")
    (None, "is 'tomorrow', not a datetime")
    """
    if not isinstance(moment, datetime):
        return f"is {ascii(moment)[:80]}, not a datetime"
    if moment.utcoffset() is None:
        return "has no time zone: use datetime.now(UTC), not datetime.now()"
    if not 1000 < moment.year < 9999:
        return f"is {moment}, which the database cannot store"
    return None


def in_utc(moment: datetime) -> datetime:
    """The same time in UTC, as a plain datetime: subclasses and unusual offsets cannot be serialized.

    >>> from datetime import timezone
    >>> in_utc(datetime(2026, 1, 1, 2, 30, tzinfo=timezone(timedelta(hours=2)))).isoformat()
    '2026-01-01T00:30:00+00:00'
    """
    offset = moment.utcoffset() or timedelta()
    return datetime.combine(moment.date(), moment.time(), UTC) - offset


def seconds_of(time: Any) -> float | None:
    """A number or a timedelta as seconds; None if it is neither, or not finite.

    >>> seconds_of(90), seconds_of(timedelta(minutes=1)), seconds_of(float("nan")), seconds_of("90")
    (90.0, 60.0, None, None)
    """
    if isinstance(time, timedelta):
        return time.total_seconds()
    if isinstance(time, bool) or not isinstance(time, Real | Decimal):
        return None
    try:
        seconds = float(time)
    except (OverflowError, ValueError):
        return None
    return seconds if math.isfinite(seconds) else None


def seconds_of_text(text: str) -> float | None:
    """A duration in text as seconds; None if it is not one.

    >>> seconds_of_text("1h30m"), seconds_of_text("0.5"), seconds_of_text("12:30")
    (5400.0, 0.5, None)
    """
    text = text.strip()
    if _DECIMAL.fullmatch(text):
        return float(text)
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    parts = zip(match.groups(), _SECONDS_OF.values(), strict=True)
    return math.fsum(float(number) * seconds for number, seconds in parts if number is not None)
