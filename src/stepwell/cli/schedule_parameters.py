"""What the commands about schedules share: the app, moments, and how a slot is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from stepwell.cli.apps import load_named_app
from stepwell.cli.target import Target
from stepwell.cli.text import age

if TYPE_CHECKING:
    from stepwell import Stepwell

app_option = click.option(
    "--app", "app_name", metavar="MODULE:NAME", help="The app with the jobs and workflows.  [env var: STEPWELL_APP]"
)


def open_app(target: Target, app_name: str | None) -> Stepwell:
    """The app if one is named, else the database alone: workers have recorded the jobs."""
    name = app_name or target.config.app.name
    return load_named_app(target, name) if name else target.open()


def moment(text: str) -> datetime:
    """A time of the command line, perhaps without a zone.

    >>> moment("2026-03-29T02:30"), moment("2026-03-29 02:30Z").tzinfo
    (datetime.datetime(2026, 3, 29, 2, 30), datetime.timezone.utc)
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected a time like 2026-03-29T02:30 or 2026-03-29T02:30+02:00") from None


def slot_text(slot: datetime, zone: str, now: datetime | None = None) -> str:
    """A slot in the zone of its schedule, in UTC, and how far away it is.

    >>> slot_text(datetime(2026, 1, 1, 1, 30, tzinfo=UTC), "Europe/Berlin")
    '2026-01-01 02:30 Europe/Berlin (01:30 UTC)'
    >>> slot_text(datetime(2026, 1, 1, 1, 30, tzinfo=UTC), "UTC", datetime(2026, 1, 1, tzinfo=UTC))
    '2026-01-01 01:30 UTC, in 90 min'
    """
    form = "%H:%M" if slot.second == 0 else "%H:%M:%S"
    distance = "" if now is None else f", {age(slot, now)}"
    if zone == "UTC":
        return f"{slot.astimezone(UTC):%Y-%m-%d {form}} UTC{distance}"
    try:
        local = slot.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):  # plain SQL may have written anything
        return slot_text(slot, "UTC", now)
    in_utc = slot.astimezone(UTC)
    day = "" if in_utc.date() == local.date() else "%Y-%m-%d "
    return f"{local:%Y-%m-%d {form}} {zone} ({in_utc.strftime(day + form)} UTC){distance}"
