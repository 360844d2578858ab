"""Names, versions, durations, and the hints of error messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from stepwell.model import codec
from stepwell.model.times import MAX_SECONDS, seconds_of, seconds_of_text

MAX_NAME: Final = 100  # namespace, workflow and step together are an action, which has 255 characters at most

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]*")

VersionKey: TypeAlias = tuple[tuple[int, int, str], ...]


def problem_of_name(name: object) -> str | None:
    """What is wrong with the name of a namespace, a workflow or a step.

    >>> problem_of_name("fetch-eu"), problem_of_name("fetch eu")
    (None, "'fetch eu' is not a valid name: use letters, digits, _ and -, beginning with a letter or _; try 'fetch_eu'")
    """
    if isinstance(name, str) and _NAME.fullmatch(name):
        if len(name) <= MAX_NAME:
            return None
        return f"the name {shown(name)} has {len(name)} characters; use at most {MAX_NAME}"
    usable = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-") if isinstance(name, str) else ""
    hint = f"; try {usable!r}" if _NAME.fullmatch(usable) and len(usable) <= MAX_NAME else ""
    return f"{shown(name)} is not a valid name: use letters, digits, _ and -, beginning with a letter or _{hint}"


def problem_of_version(version: object) -> str | None:
    """What is wrong with a version.

    >>> problem_of_version("1.10"), problem_of_version(1.1)
    (None, "the version 1.1 is a number, in which 1.10 and 1.1 are the same; write it as text: '1.1'")
    """
    if isinstance(version, float):
        return (
            f"the version {version} is a number, in which 1.10 and 1.1 are the same; write it as text: '{version:.15g}'"
        )
    if not isinstance(version, str) or not _VERSION.fullmatch(version) or len(version) > MAX_NAME:
        return f"{shown(version)} is not a valid version: use digits and dots, for example '2' or '1.10'"
    return None


def version_key(version: str) -> VersionKey:
    """Orders versions: numbers by value, text before the version without it.

    >>> sorted(["10", "9", "1.10", "1.9", "1.9-beta", "1.9.1"], key=version_key)
    ['1.9-beta', '1.9', '1.9.1', '1.10', '9', '10']
    """
    parts = re.findall(r"[0-9]+|[A-Za-z]+", version)
    return (*((2, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts), (1, 0, ""))


def duration_of(value: Any) -> float | None:
    """A number of seconds, a timedelta, or text like "1h30m", in seconds; None if it is not a valid duration.

    >>> duration_of("14d"), duration_of(2), duration_of("12:30"), duration_of(-1)
    (1209600.0, 2.0, None, None)
    """
    seconds = seconds_of_text(value) if isinstance(value, str) else seconds_of(value)
    return seconds if seconds is not None and 0 <= seconds <= MAX_SECONDS else None


def suggestion(name: str, valid: Iterable[str], what: str) -> str:
    """A hint what an unknown name was meant to be.

    >>> suggestion("paymnt", ["payment", "label"], "steps"), suggestion("x", ["payment", "label"], "steps")
    ("did you mean 'payment'?", 'steps: payment, label')
    >>> suggestion("x", [], "steps")
    'there are no steps'
    """
    options = list(valid)
    if near := difflib.get_close_matches(name, options, n=1, cutoff=0.6):
        return f"did you mean {near[0]!r}?"
    if not options:
        return f"there are no {what}"
    more = f", … ({len(options) - 12} more)" if len(options) > 12 else ""
    return f"{what}: {', '.join(options[:12])}{more}"


def shown(value: object) -> str:
    """A value, shortened for an error message."""
    return codec.clean_text(repr(value), 80)
