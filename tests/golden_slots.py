"""What expressions do when the clocks change, worked out by hand: one line for each case.

Times are UTC, because slots are; the comment on each change has the local times. A case reads: in this zone, this
expression has exactly these slots after the first and up to the last time of the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final


@dataclass(frozen=True, slots=True)
class Golden:
    rule: str
    zone: str
    expression: str
    after: datetime
    until: datetime
    slots: tuple[datetime, ...]

    def __str__(self) -> str:
        return f"{self.zone} {self.after:%Y-%m} {self.expression}: {self.rule}"


def at(text: str) -> datetime:
    """A moment of 2026 (or another year, if it is given), in UTC: `03-08 07:00`."""
    return datetime.fromisoformat(text if text[:4].isdigit() else f"2026-{text}").replace(tzinfo=UTC)


def _cases(zone: str, window: str, *lines: tuple[str, str, str]) -> list[Golden]:
    first, last = window.split(" to ")
    return [
        Golden(rule, zone, expression, at(first), at(last), tuple(at(slot) for slot in slots.split(", ") if slot))
        for rule, expression, slots in lines
    ]


GOLDEN: Final = [
    # Sunday 8 March 2026, 02:00 EST becomes 03:00 EDT at 07:00 UTC. The window is 00:00 to 08:00 local time.
    *_cases(
        "America/New_York",
        "03-08 05:00 to 03-08 12:00",
        ("a time that does not exist fires once, at the change", "30 2 * * *", "03-08 07:00"),
        ("a time that exists fires when it is", "30 3 * * *", "03-08 07:30"),
        ("two local times on one instant are one slot", "0 2,3 * * *", "03-08 07:00"),
        ("several that do not exist are one slot", "0,15,30 2 * * *", "03-08 07:00"),
        ("each named time fires", "30 1,2,3 * * *", "03-08 06:30, 03-08 07:00, 03-08 07:30"),
        ("the date is that of the time that does not exist", "30 2 8 3 *", "03-08 07:00"),
        (
            "every hour goes on in real time",
            "0 * * * *",
            "03-08 06:00, 03-08 07:00, 03-08 08:00, 03-08 09:00, 03-08 10:00, 03-08 11:00, 03-08 12:00",
        ),
        (
            "every two hours follows the clock, which leaves out 02:30",
            "30 */2 * * *",
            "03-08 05:30, 03-08 08:30, 03-08 10:30",
        ),
        ("every ten minutes of an hour that does not exist has no slot", "*/10 2 * * *", ""),
    ),
    *_cases(
        "America/New_York",
        "03-08 06:00 to 03-08 08:00",
        ("every 30 minutes goes on in real time", "*/30 * * * *", "03-08 06:30, 03-08 07:00, 03-08 07:30, 03-08 08:00"),
        ("all hours in words are every hour", "0 0-23 * * *", "03-08 07:00, 03-08 08:00"),
    ),
    # Sunday 1 November 2026, 02:00 EDT becomes 01:00 EST at 06:00 UTC. The window is 00:00 to 05:00 local time.
    *_cases(
        "America/New_York",
        "11-01 04:00 to 11-01 10:00",
        ("a time that exists twice fires once, the first time", "30 1 * * *", "11-01 05:30"),
        ("the hour of the change fires once", "0 1,2 * * *", "11-01 05:00, 11-01 07:00"),
        ("each of several that exist twice fires once", "0,30 1 * * *", "11-01 05:00, 11-01 05:30"),
        (
            "every hour goes on in real time",
            "0 * * * *",
            "11-01 05:00, 11-01 06:00, 11-01 07:00, 11-01 08:00, 11-01 09:00, 11-01 10:00",
        ),
        (
            "every 30 minutes of an hour that exists twice fires in both",
            "*/30 1 * * *",
            "11-01 05:00, 11-01 05:30, 11-01 06:00, 11-01 06:30",
        ),
        ("every two hours follows the clock", "0 */2 * * *", "11-01 07:00, 11-01 09:00"),
    ),
    *_cases(
        "America/New_York",
        "11-01 05:00 to 11-01 07:00",
        ("every 30 minutes goes on in real time", "*/30 * * * *", "11-01 05:30, 11-01 06:00, 11-01 06:30, 11-01 07:00"),
    ),
    # Begun in the second 01:xx: the first 01:30 is over.
    *_cases(
        "America/New_York",
        "11-01 06:15 to 11-01 10:00",
        ("it does not fire again in the repeated hour", "30 1 * * *", ""),
        ("what comes after the repeated hour fires", "30 1,2 * * *", "11-01 07:30"),
    ),
    # Sunday 29 March 2026, 02:00 CET becomes 03:00 CEST at 01:00 UTC. The window is 00:00 to 08:00 local time.
    *_cases(
        "Europe/Berlin",
        "03-28 23:00 to 03-29 06:00",
        ("a time that does not exist fires once, at the change", "30 2 * * *", "03-29 01:00"),
        ("two local times on one instant are one slot", "0 2,3 * * SUN", "03-29 01:00"),
        ("the times after the change are unmoved", "30 2,3 * * *", "03-29 01:00, 03-29 01:30"),
    ),
    *_cases(
        "Europe/Berlin",
        "03-29 00:20 to 03-29 01:40",
        ("every 20 minutes goes on in real time", "*/20 * * * *", "03-29 00:40, 03-29 01:00, 03-29 01:20, 03-29 01:40"),
    ),
    # Sunday 25 October 2026, 03:00 CEST becomes 02:00 CET at 01:00 UTC. The window is 00:00 to 05:00 local time.
    *_cases(
        "Europe/Berlin",
        "10-24 22:00 to 10-25 04:00",
        ("a time that exists twice fires once, the first time", "30 2 * * *", "10-25 00:30"),
        ("the times after the change are unmoved", "30 2,3 * * *", "10-25 00:30, 10-25 02:30"),
        (
            "every hour goes on in real time",
            "15 * * * *",
            "10-24 22:15, 10-24 23:15, 10-25 00:15, 10-25 01:15, 10-25 02:15, 10-25 03:15",
        ),
    ),
    # Saturday 4 April 2026, midnight -03 becomes 23:00 -04 of the same day at 03:00 UTC on the 5th.
    *_cases(
        "America/Santiago",
        "04-05 00:30 to 04-05 07:00",
        ("the last hour of a day exists twice and fires once", "30 23 * * *", "04-05 02:30"),
        ("midnight exists once, after the second", "0 0 * * *", "04-05 04:00"),
        ("the repeated hour belongs to the day that ends", "0 23 * * SAT", "04-05 02:00"),
        ("every hour of that day has one more", "0 * * * SAT", "04-05 01:00, 04-05 02:00, 04-05 03:00"),
    ),
    *_cases(
        "America/Santiago",
        "04-05 02:00 to 04-05 04:00",
        ("every 30 minutes goes on in real time", "*/30 * * * *", "04-05 02:30, 04-05 03:00, 04-05 03:30, 04-05 04:00"),
    ),
    # Sunday 6 September 2026, midnight -04 becomes 01:00 -03 at 04:00 UTC: the day begins at 01:00.
    *_cases(
        "America/Santiago",
        "09-06 02:00 to 09-06 08:00",
        ("a midnight that does not exist fires once, at the change", "0 0 * * *", "09-06 04:00"),
        ("so does a time after it", "30 0 * * *", "09-06 04:00"),
        ("two local times on one instant are one slot", "0 0,1 * * *", "09-06 04:00"),
        ("it keeps its weekday", "0 0 * * SUN", "09-06 04:00"),
        ("every two hours follows the clock, which leaves out 00:00", "0 */2 * * *", "09-06 05:00, 09-06 07:00"),
        ("also on the day that it begins with", "0 */2 * * SUN", "09-06 05:00, 09-06 07:00"),
    ),
    *_cases(
        "America/Santiago",
        "09-06 03:00 to 09-06 05:00",
        ("every 30 minutes goes on in real time", "*/30 * * * *", "09-06 03:30, 09-06 04:00, 09-06 04:30, 09-06 05:00"),
    ),
    # Sunday 5 April 2026, 02:00 +11 becomes 01:30 +10:30 at 15:00 UTC on the 4th.
    *_cases(
        "Australia/Lord_Howe",
        "04-04 13:00 to 04-04 18:00",
        ("a time that exists twice fires once, the first time", "45 1 * * *", "04-04 14:45"),
        ("the clock is put back before it shows 02:00", "0 2 * * *", "04-04 15:30"),
        ("the first time of the repeated half hour", "30 1 * * *", "04-04 14:30"),
        ("every two hours follows the clock", "0 */2 * * *", "04-04 15:30, 04-04 17:30"),
        ("every hour follows the clock", "0 * * * *", "04-04 14:00, 04-04 15:30, 04-04 16:30, 04-04 17:30"),
    ),
    *_cases(
        "Australia/Lord_Howe",
        "04-04 14:30 to 04-04 15:45",
        (
            "every 15 minutes goes on in real time",
            "*/15 * * * *",
            "04-04 14:45, 04-04 15:00, 04-04 15:15, 04-04 15:30, 04-04 15:45",
        ),
    ),
    # Sunday 4 October 2026, 02:00 +10:30 becomes 02:30 +11 at 15:30 UTC on the 3rd.
    *_cases(
        "Australia/Lord_Howe",
        "10-03 13:30 to 10-03 18:00",
        ("a time that does not exist fires once, at the change", "15 2 * * *", "10-03 15:30"),
        ("the time of the change fires once", "30 2 * * *", "10-03 15:30"),
        ("two of four do not exist", "0,15,30,45 2 * * *", "10-03 15:30, 10-03 15:45"),
        (
            "every hour follows the clock, which leaves out 02:00",
            "0 * * * *",
            "10-03 14:30, 10-03 16:00, 10-03 17:00, 10-03 18:00",
        ),
    ),
    *_cases(
        "Australia/Lord_Howe",
        "10-03 15:00 to 10-03 16:00",
        ("every 15 minutes goes on in real time", "*/15 * * * *", "10-03 15:15, 10-03 15:30, 10-03 15:45, 10-03 16:00"),
    ),
    # Saturday 28 March 2026, 23:00 -02 becomes midnight -01 of Sunday at 01:00 UTC: the day ends an hour early.
    *_cases(
        "America/Nuuk",
        "03-29 00:00 to 03-29 02:30",
        ("a time that does not exist fires at midnight", "30 23 * * *", "03-29 01:00"),
        ("a day's last time and the next day's first are one slot", "0,30 0,23 * * *", "03-29 01:00, 03-29 01:30"),
        ("it keeps its weekday", "30 23 * * SAT", "03-29 01:00"),
    ),
]
