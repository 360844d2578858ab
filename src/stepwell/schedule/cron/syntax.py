"""The text of a cron expression, read into five fields or refused with every problem at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cronsim import CronSim, CronSimError

from stepwell.model.errors import CronParseError
from stepwell.model.suggest import hint
from stepwell.schedule.cron.fields import KINDS, Field, FieldProblem

# More than any expression that a person writes, and little enough to be read in no time.
MAX_LENGTH: Final = 256

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LAYOUT: Final = "five fields: minute, hour, day of month, month, day of week"


@dataclass(frozen=True, slots=True)
class Fields:
    """The five fields of an expression."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def dates(self) -> str:
        """The expression of midnight on its dates: what cronsim is asked for."""
        return f"0 0 {self.day.plain} {self.month.plain} {self.weekday.plain}"


def read(text: Any, seed: str) -> Fields:
    """The fields of an expression, or a `CronParseError`.

    >>> read("0 25 * FOO *", "")
    Traceback (most recent call last):
    ...
    stepwell.model.errors.CronParseError: cron expression '0 25 * FOO *': hour '25': 25 is out of range;
        valid values: 0 to 23; month 'FOO': unknown name 'FOO'; valid names: JAN, FEB, MAR, APR,
        MAY, JUN, JUL, AUG, SEP, OCT, NOV, DEC
    """
    if not isinstance(text, str):
        raise CronParseError(
            f'a cron expression is text, not {ascii(text)[:40]}; in YAML it has to be quoted: "*/5 * * * *"'
        )
    if len(text) > MAX_LENGTH:
        raise CronParseError(
            f"cron expression {text[:40]!r}…: {len(text)} characters; at most {MAX_LENGTH} are accepted. "
            "Several schedules can start the same job"
        )
    expression = _expand_alias(text.strip())
    words = expression.upper().split()
    if len(words) != len(KINDS):
        raise CronParseError(f"cron expression {text!r}: {_wrong_number_of_fields(expression, words)}")
    fields, problems = [], []
    for kind, word in zip(KINDS, words, strict=True):
        try:
            fields.append(kind.read(word, seed))
        except FieldProblem as problem:
            problems.append(f"{kind.name} {word!r}: {problem}")
    if problems:
        raise CronParseError(f"cron expression {text!r}: {'; '.join(problems)}")
    found = Fields(*fields)
    if not _has_a_date(found.dates):
        raise CronParseError(
            f"cron expression {text!r}: no date has this day of month ({words[2]}), month ({words[3]}) "
            f"and day of week ({words[4]}): it would never fire"
        )
    return found


def _expand_alias(text: str) -> str:
    if not text.startswith("@"):
        return text
    if text.lower() in ALIASES:
        return ALIASES[text.lower()]
    if text.lower() == "@reboot":
        problem = "a schedule has no reboot; enqueue the job when your program starts"
    elif text.lower().startswith("@every"):
        problem = "write the interval as a step, as in */5 * * * * (every 5 minutes)"
    else:
        problem = hint(text, ALIASES, "names")
    raise CronParseError(f"cron expression {text!r}: unknown name; {problem}")


def _wrong_number_of_fields(expression: str, words: list[str]) -> str:
    if not words:
        return f"it is empty; write {_LAYOUT}"
    if re.search(r",\s|\s,|\s[-/]|[-/]\s", expression):
        return "a field cannot contain spaces; write lists as 1,2 and ranges as 1-5"
    if len(words) in (6, 7):
        kept = " ".join(expression.split()[1:6])
        advice = f"; without its first field it is {kept!r}" if words[0] in ("0", "*") else ""
        return f"{len(words)} fields, but seconds are not supported (nor years); write {_LAYOUT}{advice}"
    return f"{len(words)} field{'s' * (len(words) > 1)} instead of 5; write {_LAYOUT}"


def _has_a_date(dates: str) -> bool:
    try:
        # cronsim looks 50 years ahead. The rarest date, a fifth weekday of February, is at most 40 years away.
        return next(CronSim(dates, datetime(2000, 1, 1)), None) is not None
    except CronSimError:
        return False
