"""Text for people: safe to print, short, with readable times."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from stepwell.look.words import counted, span

__all__ = ["NAME_WIDTH", "age", "clean", "counted", "exact", "shorten", "span", "to_json"]

# Of groups and queues in tables; `show` and JSON have the whole name.
NAME_WIDTH: Final = 16
# Not escaped by JSON, but interpreted by terminals: DEL, C1 controls, marks that change the direction of text.
_CONTROLS: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: object, *, lines: bool = False) -> str:
    """Text without control characters; with `lines`, line breaks and tabs are kept.

    >>> clean("red: \\x1b[31mnow\\x07 and\\nthen")
    'red: [31mnow and then'
    """
    kept = []
    for character in str(text):
        if character.isprintable() or (lines and character in "\n\t"):
            kept.append(character)
        elif character.isspace():
            kept.append(" ")
    return "".join(kept)


def shorten(text: object, width: int) -> str:
    """One clean line of at most `width` characters.

    >>> shorten("the exchange does not answer", 16)
    'the exchange do…'
    """
    line = " ".join(clean(text).split())
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"


def age(moment: datetime | None, now: datetime) -> str:
    """How long ago, or how soon.

    >>> from datetime import timedelta
    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> age(now - timedelta(seconds=3), now), age(now + timedelta(minutes=90), now), age(None, now)
    ('3 s ago', 'in 90 min', '')
    """
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    amount = span(abs(seconds))
    return f"{amount} ago" if seconds > 0 else f"in {amount}"


def exact(moment: datetime | None, now: datetime | None = None) -> str:
    """A time in UTC to the microsecond, with its age.

    >>> exact(datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 13, tzinfo=UTC))
    '2026-01-01 12:00:00.000000 UTC (60 min ago)'
    """
    if moment is None:
        return ""
    text = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")
    return text if now is None else f"{text} ({age(moment, now)})"


def to_json(value: Any) -> str:
    """One JSON document: times in ISO 8601 and UTC, dataclasses as objects, control characters escaped.

    >>> print(to_json({"at": datetime(2026, 1, 1, tzinfo=UTC), "name": "caf\\u00e9 \\x9b"}))
    {
      "at": "2026-01-01T00:00:00.000000+00:00",
      "name": "café \\u009b"
    }
    """
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False)
    return _CONTROLS.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds")
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case BaseException():
            return f"{type(value).__name__}: {value}"
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value
